"""Building blocks: gates, encoders, pooling, heads, dropout and sparse attention. None depends on a task or
a loss.

`fast` and `fast_rows` hold the fast forms of what the other modules define. `fast_rows` needs numba, which is slow to
import, so it is imported only where it is used.
"""

from rationale.nn.dropout import Dropout, ReLUDropout
from rationale.nn.encoders import ENCODERS, Encoder, LSTMEncoder, RCNNEncoder
from rationale.nn.gates import (
    GATES,
    RULES,
    BernoulliGate,
    Gate,
    HardConcreteGate,
    HardKumaGate,
    StraightThroughGate,
    decide,
    top_k,
)
from rationale.nn.heads import HEADS, Classes, Head, Scores
from rationale.nn.initialise import initialise
from rationale.nn.pooling import POOLS, AttentionPool, FinalPool, LastPool, MaxPool, MeanPool, Pool
from rationale.nn.rcnn import RCNNCell, RCNNState
from rationale.nn.sampling import Draw, log_switches, repeated, sample
from rationale.nn.sparse_attention import (
    LARGEST_PRICE,
    MAPPINGS,
    Mapping,
    all_mappings,
    fusedmax,
    has_zero_jacobian,
    in_dead_zone,
    oscarmax,
    softmax,
    sparsemax,
    sq_pnorm_max,
)

__all__ = [
    "ENCODERS",
    "GATES",
    "HEADS",
    "LARGEST_PRICE",
    "MAPPINGS",
    "POOLS",
    "RULES",
    "AttentionPool",
    "BernoulliGate",
    "Classes",
    "Draw",
    "Dropout",
    "Encoder",
    "FinalPool",
    "Gate",
    "HardConcreteGate",
    "HardKumaGate",
    "Head",
    "LSTMEncoder",
    "LastPool",
    "Mapping",
    "MaxPool",
    "MeanPool",
    "Pool",
    "RCNNCell",
    "RCNNEncoder",
    "RCNNState",
    "ReLUDropout",
    "Scores",
    "StraightThroughGate",
    "all_mappings",
    "decide",
    "fusedmax",
    "has_zero_jacobian",
    "in_dead_zone",
    "initialise",
    "log_switches",
    "oscarmax",
    "repeated",
    "sample",
    "softmax",
    "sparsemax",
    "sq_pnorm_max",
    "top_k",
]
