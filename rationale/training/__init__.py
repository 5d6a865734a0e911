"""Training: one loop, its checkpoint and model selection, and one file per task."""

from rationale.training.alignment import train_aligner
from rationale.training.checkpoint import TrainingState, all_tensors, load_trained, read_tensors, write_tensors
from rationale.training.evaluation import Evaluation, evaluate_extractor, importance_quantile, rationale_metrics
from rationale.training.extraction import Result, train, train_extractor
from rationale.training.generation import GenerationResult, train_seq2seq
from rationale.training.linear_baseline import COSTS, features, train_svm, word_scores
from rationale.training.loop import build_optimizer, build_scheduler, choose_device, fit
from rationale.training.model_selection import AUTHORS_PATIENCE, ModelSelection
from rationale.training.probing import (
    AnswerLoss,
    AttributionResult,
    ProbedTask,
    attribute,
    attribute_batch,
    build_probe,
    build_probed_task,
    evaluate_probe,
    freeze,
    load_weights,
    predict_answers,
    train_probe,
    train_probed_model,
)

__all__ = [
    "AUTHORS_PATIENCE",
    "COSTS",
    "AnswerLoss",
    "AttributionResult",
    "Evaluation",
    "GenerationResult",
    "ModelSelection",
    "ProbedTask",
    "Result",
    "TrainingState",
    "all_tensors",
    "attribute",
    "attribute_batch",
    "build_optimizer",
    "build_probe",
    "build_probed_task",
    "build_scheduler",
    "choose_device",
    "evaluate_extractor",
    "evaluate_probe",
    "features",
    "fit",
    "freeze",
    "importance_quantile",
    "load_trained",
    "load_weights",
    "predict_answers",
    "rationale_metrics",
    "read_tensors",
    "train",
    "train_aligner",
    "train_extractor",
    "train_probe",
    "train_probed_model",
    "train_seq2seq",
    "train_svm",
    "word_scores",
    "write_tensors",
]
