"""Training: one loop, its checkpoint and model selection, and one file per task."""

from rationale.training.alignment import train_aligner
from rationale.training.checkpoint import TrainingState, all_tensors, load_trained, read_tensors, write_tensors
from rationale.training.evaluation import (
    Evaluation,
    evaluate_extractor,
    importance_quantile,
    rationale_metrics,
    score_when_shut,
)
from rationale.training.extraction import Result, prepare_extractor, require_words, train, train_extractor
from rationale.training.generation import GenerationResult, train_seq2seq
from rationale.training.linear_baseline import COSTS, features, score_by_rate, train_svm, word_scores
from rationale.training.loop import build_optimizer, build_scheduler, choose_device, fit
from rationale.training.model_selection import AUTHORS_PATIENCE, ModelSelection
from rationale.training.own_notes import notes_about
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
from rationale.training.tfidf import Baseline, train_tfidf

__all__ = [
    "AUTHORS_PATIENCE",
    "COSTS",
    "AnswerLoss",
    "AttributionResult",
    "Baseline",
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
    "notes_about",
    "predict_answers",
    "prepare_extractor",
    "rationale_metrics",
    "read_tensors",
    "require_words",
    "score_by_rate",
    "score_when_shut",
    "train",
    "train_aligner",
    "train_extractor",
    "train_probe",
    "train_probed_model",
    "train_seq2seq",
    "train_svm",
    "train_tfidf",
    "word_scores",
    "write_tensors",
]
