"""Building blocks: gates, encoders, pooling, heads, dropout and sparse attention. They know no task and no loss.

`fast` and `fast_rows` hold the fast forms of what the other modules define; `fast_rows` takes numba, which is slow to
import, and is imported where it is needed.
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
from rationale.nn.rcnn import RCNNCell, State
from rationale.nn.sampling import Draw, GateDistribution, log_switches, repeated, sample
from rationale.nn.sparse_attention import (
    LARGEST_PRICE,
    MAPPINGS,
    Mapping,
    all_mappings,
    dead,
    fusedmax,
    oscarmax,
    settled,
    softmax,
    sparsemax,
    sq_pnorm_max,
)

__all__ = [
    "ENCODERS",
    "Encoder",
    "GATES",
    "HEADS",
    "Head",
    "LARGEST_PRICE",
    "MAPPINGS",
    "POOLS",
    "RULES",
    "AttentionPool",
    "BernoulliGate",
    "Classes",
    "Draw",
    "Dropout",
    "FinalPool",
    "Gate",
    "GateDistribution",
    "HardConcreteGate",
    "HardKumaGate",
    "LSTMEncoder",
    "LastPool",
    "Mapping",
    "MaxPool",
    "MeanPool",
    "Pool",
    "RCNNCell",
    "RCNNEncoder",
    "ReLUDropout",
    "Scores",
    "State",
    "StraightThroughGate",
    "all_mappings",
    "dead",
    "decide",
    "fusedmax",
    "initialise",
    "log_switches",
    "oscarmax",
    "repeated",
    "sample",
    "settled",
    "softmax",
    "sparsemax",
    "sq_pnorm_max",
    "top_k",
]
