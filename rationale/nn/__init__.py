"""Building blocks: gates, encoders, pooling, heads, dropout and sparse attention. They know no task and no loss."""

from rationale.nn.dropout import Dropout, ReLUDropout, kept_units
from rationale.nn.encoders import ENCODERS, LSTMEncoder, RCNNEncoder
from rationale.nn.gates import (
    GATES,
    RULES,
    STRETCHED,
    BernoulliGate,
    Gate,
    HardConcreteGate,
    HardKumaGate,
    StraightThroughGate,
    decide,
    top_k,
)
from rationale.nn.heads import HEADS, Classes, Scores
from rationale.nn.pooling import POOLS, Pool
from rationale.nn.rcnn import MemoryScan, RCNNCell, Scan, State
from rationale.nn.sampling import Draw, initialise, repeated, sample
from rationale.nn.sparse_attention import (
    LARGEST_PRICE,
    MAPPINGS,
    OWN,
    all_mappings,
    arguments_of,
    dead,
    fusedmax,
    oscarmax,
    settled,
    softmax,
    sparsemax,
    sq_pnorm_max,
)

__all__ = [
    "BernoulliGate",
    "Classes",
    "Draw",
    "Dropout",
    "ENCODERS",
    "GATES",
    "Gate",
    "HEADS",
    "HardConcreteGate",
    "HardKumaGate",
    "LARGEST_PRICE",
    "LSTMEncoder",
    "MAPPINGS",
    "MemoryScan",
    "OWN",
    "POOLS",
    "Pool",
    "RCNNCell",
    "RCNNEncoder",
    "RULES",
    "ReLUDropout",
    "STRETCHED",
    "Scan",
    "Scores",
    "State",
    "StraightThroughGate",
    "all_mappings",
    "arguments_of",
    "dead",
    "decide",
    "fusedmax",
    "initialise",
    "kept_units",
    "oscarmax",
    "repeated",
    "sample",
    "settled",
    "softmax",
    "sparsemax",
    "sq_pnorm_max",
    "top_k",
]
