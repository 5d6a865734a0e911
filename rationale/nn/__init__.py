"""Building blocks: gates, encoders, pooling, heads, dropout and sparse attention. None depends on a task or
a loss.

`fast` and `mappings.fast_rows` hold the fast forms of what the other modules define. `fast_rows` needs numba, which is
slow to import, so it is imported only where it is used.
"""

from rationale.nn.dropout import Dropout, ReLUDropout
from rationale.nn.encoders import ENCODERS, Encoder, LSTMEncoder, RCNNEncoder
from rationale.nn.gates import (
    GATES,
    BernoulliGate,
    Gate,
    HardConcreteGate,
    HardKumaGate,
    StraightThroughGate,
)
from rationale.nn.heads import HEADS, Classes, Head, Scores
from rationale.nn.initialise import initialise
from rationale.nn.mappings import (
    LARGEST_PRICE,
    MAPPINGS,
    Entmax,
    Entmax15,
    Fusedmax,
    Mapping,
    Oscarmax,
    Softmax,
    Sparsemax,
    SqPnormMax,
    all_mappings,
    entmax,
    entmax15,
    fusedmax,
    has_zero_jacobian,
    in_dead_zone,
    oscarmax,
    softmax,
    sparsemax,
    sq_pnorm_max,
)
from rationale.nn.pooling import POOLS, AttentionPool, FinalPool, LastPool, MaxPool, MeanPool, Pool
from rationale.nn.rcnn import RCNNCell, RCNNState
from rationale.nn.rules import RULES, Rule, decide, selects, top_k
from rationale.nn.sampling import Draw, log_switches, repeated, sample
from rationale.nn.start import log_width, widest_shapes

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
    "Entmax",
    "Entmax15",
    "FinalPool",
    "Fusedmax",
    "Gate",
    "HardConcreteGate",
    "HardKumaGate",
    "Head",
    "LSTMEncoder",
    "LastPool",
    "Mapping",
    "MaxPool",
    "MeanPool",
    "Oscarmax",
    "Pool",
    "RCNNCell",
    "RCNNEncoder",
    "RCNNState",
    "ReLUDropout",
    "Rule",
    "Scores",
    "Softmax",
    "Sparsemax",
    "SqPnormMax",
    "StraightThroughGate",
    "all_mappings",
    "decide",
    "entmax",
    "entmax15",
    "fusedmax",
    "has_zero_jacobian",
    "in_dead_zone",
    "initialise",
    "log_switches",
    "log_width",
    "oscarmax",
    "repeated",
    "sample",
    "selects",
    "softmax",
    "sparsemax",
    "sq_pnorm_max",
    "top_k",
    "widest_shapes",
]
