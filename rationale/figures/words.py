"""Words for a reader, in legends and in the cells of tables, in place of names that code and parameter files use."""

WORDS = {
    # models
    "hardkuma": "HardKuma",
    "bernoulli": "Bernoulli",
    "hard_concrete": "Hard Concrete",
    "straight_through": "straight-through",
    "full_text": "full text",
    "svm": "SVM",
    "attention": "attention",
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "fusedmax": "fusedmax",
    "oscarmax": "oscarmax",
    "sq_pnorm_max": "sq-pnorm-max",
    # ways to explain a model
    "states": "probe of states",
    "inputs": "probe of inputs",
    "subject": "probed model",
    "erasure": "erasure",
    "masks": "free masks",
    "masks_by_score": "free masks, by score",
    "masks_by_released_score": "free masks, by released score",
    "masks_with_baseline": "free masks with a baseline",
    "integrated_gradients": "integrated gradients",
    "information_bottleneck": "information bottleneck",
    "additive_noise": "additive noise",
    # corpora
    "synthetic": "made-up reviews",
    "imdb_rationales": "IMDb",
    "nli_small": "small NLI",
    "sst": "SST",
    "toy": "toy task",
    "multi30k": "Multi30k",
    "xquad": "XQuAD",
    "aeslc": "AESLC",
    "gigaword": "Gigaword",
    "duc2004": "DUC 2004",
    # encoders, and how words are chosen
    "lstm": "LSTM",
    "gru": "GRU",
    "rcnn": "RCNN",
    "minilm": "MiniLM",
    "top_k": "top k",
    "mean_reward": "mean reward",
    "leave_one_out": "leave-one-out",
    # what is measured
    "mse": "squared error",
    "task": "loss of the task",
    "loss": "loss of the task and prices",
    "gap_average": "gap, average of the last steps",
    "rate_expected": "expected share selected",
    "rate_selected": "share selected",
    "dev_mse": "squared error on dev",
    "dev_accuracy": "accuracy on dev",
    "dev_rate_expected": "expected share selected, dev",
    "dev_rate_selected": "share selected, dev",
    "f1": "F1",
    "macro_f1": "macro-F1",
    "masked_accuracy": "accuracy after masking",
    "masked_macro_f1": "macro-F1 after masking",
    "masked_macro_f1_error": "standard error of the difference in macro-F1",
    "masked_f1": "F1 after masking",
    "masked_exact_match": "exact match after masking",
    "exact_match": "exact match",
    "precision_macro": "precision, mean over texts",
    "recall_macro": "recall, mean over texts",
    "f1_macro": "F1, mean over texts",
    "span_f1_macro": "F1 of passages (IOU F1)",
    "auprc": "area under precision and recall (AUPRC)",
    "precision_informative": "precision, words that carry the score",
    "recall_informative": "recall, words that carry the score",
    "f1_informative": "F1, words that carry the score",
    "blind_random_words": "precision of random words",
    "blind_random_span": "precision of a random run of words",
    "blind_first_words": "precision of the first words",
    "blind_last_words": "precision of the last words",
    "accuracy_whole": "accuracy, reading the whole text",
    "accuracy_shut": "accuracy, all cells shut",
    "sufficiency_aopc": "sufficiency, mean over budgets",
    "comprehensiveness_aopc": "comprehensiveness, mean over budgets",
    "length_leak": "length leak",
    "count_tells": "count tells",
    "empty": "share of texts without a selected word",
    "first_words": "share of the selected words among the first two",
    "words_a_second": "words per second",
    "answer_share": "share of the most frequent answer",
    "calibration_error": "calibration error",
    "word_precision": "precision of words",
    "word_recall": "recall of words",
    "word_f1": "F1 of words",
    "word_base_rate": "share of words that are not neutral",
    "rouge1": "ROUGE-1",
    "rouge2": "ROUGE-2",
    "rougeL": "ROUGE-L",
    "bleu": "BLEU",
    "length_ratio": "length, divided by the reference's",
    "zeros": "share of weights that are 0",
    "grouped": "share of attended words with the weight of another",
    "segments": "share of attended words with the weight of a neighbour",
}
for _label in range(3):  # of sentence pairs
    WORDS[f"grouped_{_label}"] = f"{WORDS['grouped']}, label {_label}"
    WORDS[f"segments_{_label}"] = f"{WORDS['segments']}, label {_label}"

NO_WORD = {"@@NULL@@": "(no word)"}  # the first word of each sentence of a pair (`rationale.data.pairs.NULL`)


def token_in_words(token: str) -> str:
    """A token of a text as a picture shows it: the one that stands for no word has words of its own."""
    return NO_WORD.get(token, token)


def scores_in_words(scores) -> str:
    """One score or several, with two decimals: [0.5, 0.25] is "0.50, 0.25"."""
    return ", ".join(f"{float(score):.2f}" for score in scores)


def in_words(name: str) -> str:
    """A name of code in words: `hardkuma, learning_rate=0.01` is "HardKuma, learning rate 0.01".

    The parts between commas are looked up in `WORDS`. A part that is not found there stays as it is, except that a
    setting and its value are no assignment any more.
    """

    def part_in_words(part: str) -> str:
        if part in WORDS:
            return WORDS[part]
        setting, is_assignment, value = part.partition("=")
        is_name = setting.replace("_", "").isalnum()
        return f"{setting.replace('_', ' ')} {WORDS.get(value, value)}" if is_assignment and is_name else part

    return ", ".join(map(part_in_words, name.split(", ")))
