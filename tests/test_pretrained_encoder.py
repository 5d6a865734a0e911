"""Pretrained transformers as encoders of an extractor; tiny ones with random weights stand for five architectures."""

import json
import shutil
import string
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from own_files import write_table
from torch import nn
from torch.nn.functional import pad

import rationale
from rationale import digests, training
from rationale.data import Example
from rationale.data.batches import Batches, Vocabulary
from rationale.data.spellings import MOST_PIECES
from rationale.data.word_pieces import NO_PIECE, build_pieces, piece_table
from rationale.errors import BadInput
from rationale.models import build_extractor
from rationale.models.pretrained_encoder import PretrainedEncoder
from rationale.models.transformers import load_any_encoder, multiplying_in_bfloat16
from rationale.nn import GATES
from rationale.nn.encoders import find_encoder
from rationale.runs import answers, inputs, saved
from rationale.runs.inputs import record_files_read
from rationale.runs.origin import read_environment
from rationale.runs.predict import predict
from rationale.training.extraction import Result
from rationale.training.loop import build_optimizer
from rationale.training.settings.extraction import ExtractionSettings

transformers = pytest.importorskip("transformers")
SIZES = {
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 40,
}
CONFIGS = {
    "bert": ("BertConfig", SIZES),
    "roberta": ("RobertaConfig", SIZES | {"max_position_embeddings": 42}),
    "distilbert": (
        "DistilBertConfig",
        {"dim": 8, "n_layers": 2, "n_heads": 2, "hidden_dim": 16, "max_position_embeddings": 40},
    ),
    "deberta": (
        "DebertaV2Config",
        SIZES | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "type_vocab_size": 0},
    ),
    "modernbert": ("ModernBertConfig", SIZES | {"local_attention": 8}),
}
COUNTING = {  # more architectures whose configuration states a number of positions; some leave the first of them unused
    "albert": ("AlbertConfig", {"embedding_size": 8}),
    "camembert": ("CamembertConfig", {}),
    "data2vec": ("Data2VecTextConfig", {}),
    "electra": ("ElectraConfig", {"embedding_size": 8}),
    "ernie": ("ErnieConfig", {}),
    "longformer": ("LongformerConfig", {"attention_window": 4, "max_position_embeddings": 42}),  # it reads fours
    "luke": ("LukeConfig", {"entity_vocab_size": 5, "entity_emb_size": 4}),
    "markuplm": ("MarkupLMConfig", {}),
    "mpnet": ("MPNetConfig", {}),
    "nystromformer": ("NystromformerConfig", {"num_landmarks": 4, "segment_means_seq_len": 4, "conv_kernel_size": 3}),
    "roberta_prelayernorm": ("RobertaPreLayerNormConfig", {}),
    "xlm": ("XLMConfig", {"emb_dim": 8, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 40}),
    "xlm_roberta": ("XLMRobertaConfig", {}),
    "xlm_roberta_xl": ("XLMRobertaXLConfig", {}),
    "xmod": ("XmodConfig", {"default_language": "en_XX"}),
}
COUNTING |= {name: CONFIGS[name] for name in ("bert", "roberta", "distilbert", "deberta")}
TEXTS = [Example(tuple("a funny film , oddly quiet".split()), 1), Example(("dull", "!"), 0), Example(("so", "so"), 0)]


def vocabulary_of_pieces() -> dict[str, int]:
    letters = string.ascii_lowercase
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "film", "quiet", "a", ",", "!"]
    return {piece: i for i, piece in enumerate(dict.fromkeys([*pieces, *letters, *(f"##{x}" for x in letters)]))}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A folder per architecture with a tokenizer and random weights."""
    places = {}
    for name, (config, options) in CONFIGS.items():
        places[name] = str(tmp_path_factory.mktemp(name))
        vocabulary = vocabulary_of_pieces()
        tokenizer = transformers.BertTokenizerFast(vocab=vocabulary)
        tokenizer.model_max_length = 40
        tokenizer.save_pretrained(places[name])
        torch.manual_seed(0)
        special = {"pad_token_id": 0, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
        chosen = getattr(transformers, config)(vocab_size=len(vocabulary), **special, **options)
        transformers.AutoModel.from_config(chosen).save_pretrained(places[name])
    return places


def settings(folder: str, **changes) -> ExtractionSettings:
    usual = {"encoder": "transformer", "pretrained": folder, "vectors": "random", "dropout": 0.1}
    return ExtractionSettings(**(usual | changes))


def extractor(folder: str, texts=TEXTS, **changes):
    vocabulary, table = build_pieces({"train": texts}, load_any_encoder(folder)[1])
    torch.manual_seed(1)
    model = build_extractor(settings(folder, **changes), table, "classes", 2)
    return model, Batches(texts, vocabulary, len(texts)).rows(torch.arange(len(texts)))


@pytest.mark.parametrize("name", CONFIGS)
def test_states_are_those_of_the_transformer_on_the_whole_text(folders, name):
    model, batch = extractor(folders[name])
    encoder = model.predictor.encoder.eval()
    states, final = encoder(model.embed(batch.tokens), batch.mask)
    transformer, tokenizer = load_any_encoder(folders[name])
    for row, text in enumerate(TEXTS):
        plain = tokenizer([list(text.tokens)], is_split_into_words=True, return_tensors="pt")
        own = transformer.eval()(plain["input_ids"], attention_mask=plain["attention_mask"]).last_hidden_state[0]
        first = [plain.word_ids(0).index(word) for word in range(len(text.tokens))]
        torch.testing.assert_close(states[row, : len(first)], own[first])
        torch.testing.assert_close(final[row], own[0])


@pytest.mark.parametrize("mode", ["zero", "compact"])
@pytest.mark.parametrize("name", CONFIGS)
def test_no_unselected_word_reaches_the_prediction(folders, name, mode):
    """Each is replaced by words of one piece, of several pieces, and by an unknown one."""
    model, batch = extractor(folders[name], predictor=mode)
    model.eval()
    z = torch.where(torch.arange(batch.mask.shape[1]) % 2 == 0, 0.7, 0.0) * batch.mask
    before = model.predictor(model.embed(batch.tokens), batch.mask, z)
    vocabulary = Vocabulary(sorted({token for text in TEXTS for token in text.tokens}))
    for word in (*vocabulary.words[2:], "<unk>"):
        replaced = batch.tokens.masked_fill(batch.mask & (z == 0), vocabulary.encode([word])[0])
        torch.testing.assert_close(model.predictor(model.embed(replaced), batch.mask, z), before, rtol=0, atol=1e-6)
    selected = batch.tokens.masked_fill(z != 0, vocabulary.encode(["quiet"])[0])
    assert not torch.allclose(model.predictor(model.embed(selected), batch.mask, z), before), "selected words are read"


@pytest.mark.parametrize("mode", ["zero", "compact"])
def test_many_selections_of_a_text_are_read_as_one_after_the_other(folders, mode):
    model, batch = extractor(folders["bert"], predictor=mode)
    model.eval()
    draws = torch.rand(20, *batch.mask.shape, generator=torch.Generator().manual_seed(4))
    selections = (draws > torch.linspace(0, 1, 20).view(-1, 1, 1)) * draws * batch.mask  # from all words to none
    found = model.predict_selected(batch.tokens, batch.mask, selections)  # 60 rows, more than are read at a time
    with torch.no_grad():
        each = [model.predictor(model.embed(batch.tokens), batch.mask, z) for z in selections]
    torch.testing.assert_close(found, torch.stack(each), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("gate", GATES)
def test_every_gate_and_the_weights_below_it_get_a_gradient(folders, gate):
    model, batch = extractor(folders["bert"], model=gate)
    torch.manual_seed(2)
    output = model(batch.tokens, batch.mask)
    loss = output.prediction.logsumexp(1).sum()
    if not output.gates.has_rsample:
        loss = loss + output.gates.log_prob(output.z)[batch.mask].sum()
    loss.backward()
    first = next(model.selector.gate.parameters())
    assert first.grad.ne(0).any(), "the gate"
    assert model.selector.encoder.transformer.get_input_embeddings().weight.grad.ne(0).any(), "the selector's pieces"
    assert model.predictor.encoder.transformer.get_input_embeddings().weight.grad.ne(0).any(), "the predictor's"
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_a_straight_through_gradient_reaches_the_gates_of_closed_words(folders):
    model, batch = extractor(folders["bert"], model="straight_through")
    raw = torch.full((len(TEXTS), batch.mask.shape[1]), -9.0, requires_grad=True)
    z = (torch.zeros_like(raw) + raw.sigmoid() - raw.sigmoid().detach()) * batch.mask
    model.predictor(model.embed(batch.tokens), batch.mask, z).logsumexp(1).sum().backward()
    assert raw.grad[batch.mask].ne(0).all()


def test_a_text_longer_than_the_transformer_is_read_in_windows(folders):
    words = ("film", "a", "quiet", ",", "oddly") * 12  # 5 of one piece each but the last
    for name, folder in folders.items():
        model, batch = extractor(folder, [Example(words, 1), Example(("film", "!"), 0)])
        encoder = model.predictor.encoder.eval()
        assert encoder.window == 38, name
        states, final = encoder(model.embed(batch.tokens), batch.mask)
        numbers = model.embed(batch.tokens)[0]
        pieces = numbers[numbers != NO_PIECE]
        transformer, tokenizer = load_any_encoder(folder)
        windows = pieces.split(encoder.window)
        ends = [
            transformer.eval()(pad(pad(w, (1, 0), value=encoder.first), (0, 1), value=encoder.last).unsqueeze(0))
            for w in windows
        ]
        own = torch.cat([end.last_hidden_state[0, 1:-1] for end in ends])
        starts = (numbers != NO_PIECE).sum(1).cumsum(0) - (numbers != NO_PIECE).sum(1)
        torch.testing.assert_close(states[0], own[starts], msg=name)
        mean = torch.stack([end.last_hidden_state[0, 0] for end in ends]).mean(0)
        torch.testing.assert_close(final[0], mean, msg=name)
        alone = encoder(model.embed(batch.tokens[1:, :2]), batch.mask[1:, :2])[1]
        torch.testing.assert_close(final[1:], alone, msg=f"{name}: windows without a piece do not count")


@pytest.mark.parametrize("name", COUNTING)
def test_a_window_has_as_many_pieces_as_the_transformer_has_positions_for(name):
    """The tokenizer states no limit, so the window follows from the transformer alone."""
    config, options = COUNTING[name]
    options = options if "n_heads" in options else SIZES | options
    vocabulary = vocabulary_of_pieces() | {"[UNK]": 0, "[PAD]": 1}
    tokenizer = transformers.BertTokenizerFast(vocab=vocabulary)
    special = {"pad_token_id": 1, "bos_token_id": 2, "cls_token_id": 2, "eos_token_id": 3, "sep_token_id": 3}
    torch.manual_seed(0)
    chosen = getattr(transformers, config)(vocab_size=len(vocabulary), **special, **options)
    encoder = PretrainedEncoder(transformers.AutoModel.from_config(chosen), tokenizer).eval()
    pieces = torch.tensor(tokenizer.convert_tokens_to_ids([*string.ascii_lowercase] * 3))
    full = pad(pad(pieces[: encoder.window], (1, 0), value=encoder.first), (0, 1), value=encoder.last)
    with torch.no_grad():
        for size in (encoder.window, encoder.window + 1, len(pieces)):
            states, final = encoder(pieces[None, :size, None], torch.ones(1, size, dtype=torch.bool))
            own = encoder.transformer(full[None]).last_hidden_state[0, 1:-1]
            torch.testing.assert_close(states[0, : encoder.window], own)
            assert states.isfinite().all() and final.isfinite().all()
        with pytest.raises((IndexError, RuntimeError)):  # no position is left over
            encoder.transformer(pad(full, (1, 0), value=encoder.first)[None])


def test_a_note_says_how_many_texts_are_read_in_windows(folders, tmp_path, capsys):
    p = settings(folders["bert"], epochs=1, selection=0.5, batch_size=2, device="cpu")
    longer = [
        Example(("a", "quiet", "film") * 20, 1),
        Example(("oddly",) * 37, 0),
    ]  # the second has two pieces per word
    training.train_extractor(p, {"train": TEXTS, "dev": TEXTS, "test": [*TEXTS, *longer]}, "classes", 2, tmp_path)
    (note,) = [line for line in capsys.readouterr().out.splitlines() if "windows" in line]
    assert note.startswith(f"note: 2 of {3 * len(TEXTS) + 2} texts are longer than 38 word pieces")
    training.train_extractor(p, dict.fromkeys(("train", "dev", "test"), TEXTS), "classes", 2, tmp_path / "b")
    assert "windows" not in capsys.readouterr().out


def test_long_texts_are_read_as_a_whole_in_the_first_epoch_if_nothing_else_is_said(folders, tmp_path, capsys):
    longer = [Example(("a", "quiet", "film") * 20, k % 2) for k in range(len(TEXTS) + 1)]
    for name, texts, given, epochs, rates in (
        ("long", [*TEXTS, *longer], None, 2, (True, False)),
        ("half", [*TEXTS, *longer[1:]], None, 2, (False, False)),
        ("given", [*TEXTS, *longer], 0, 2, (False, False)),
        ("once", [*TEXTS, *longer], None, 1, (False,)),
    ):
        p = settings(folders["bert"], epochs=epochs, selection=0.5, whole_text_epochs=given, device="cpu")
        splits = {"train": texts, "dev": TEXTS, "test": TEXTS}
        (tmp_path / name).mkdir()
        result = training.train_extractor(p, splits, "classes", 2, tmp_path / name)
        assert tuple(row["train_rate"] == 1 for row in result.history) == rates, name
        said = "the predictor reads every word in the first epoch" in capsys.readouterr().out
        assert said == any(rates), name
        assert result.best["epoch"] == epochs or not any(rates), "such an epoch is kept only if there is no other"


@pytest.mark.parametrize("times", [1, 20], ids=["short", "long"])
def test_fit_continues_an_interrupted_run_whose_texts_decide_what_is_read_as_a_whole(
    folders, tmp_path, monkeypatch, capsys, times
):
    rows = [{"text": f"a {'quiet film ' * times}{k}", "label": "yn"[k % 2]} for k in range(24)]
    path, save = write_table(tmp_path / "r.csv", rows), training.TrainingState.save
    given = {"encoder": folders["bert"], "epochs": 3, "stop_after": 0, "device": "cpu"}
    unbroken = rationale.fit(path, tmp_path / "unbroken", **given)

    def interrupted(state, place):
        save(state, place)
        if len(state.history) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(training.TrainingState, "save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rationale.fit(path, tmp_path / "run", **given)
    monkeypatch.undo()
    with pytest.raises(BadInput, match=rf"whole_text_epochs {int(times > 1)} there, 2 here"):
        rationale.fit(path, tmp_path / "run", **given, whole_text_epochs=2)
    continued = rationale.fit(path, tmp_path / "run", **given)
    assert "resumed after epoch 2 of 3" in capsys.readouterr().out
    for name, value in unbroken.model.state_dict().items():
        assert torch.equal(value, continued.model.state_dict()[name]), name


def test_a_row_without_any_selected_word_has_a_finite_answer_and_gradient(folders):
    for mode in ("zero", "compact"):
        model, batch = extractor(folders["bert"], predictor=mode)
        answer = model.predictor(model.embed(batch.tokens), batch.mask, torch.zeros(batch.mask.shape))
        answer.sum().backward()
        assert answer.isfinite().all() and all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_words_of_a_treebank_have_the_pieces_of_plain_text_and_every_word_has_one():
    tokenizer = transformers.BertTokenizerFast(vocab=vocabulary_of_pieces() | {"(": 99})
    table = piece_table(["-LRB-", "film", "ab", "\x7f", "☂"], tokenizer)
    assert tokenizer.convert_ids_to_tokens(table[:, 0].tolist()) == ["(", "film", "a", "[UNK]", "[UNK]"]
    assert (table != NO_PIECE).sum(1).tolist() == [1, 1, 2, 1, 1]


def test_a_word_without_end_has_its_first_pieces_and_leaves_the_others_as_they_are(folders):
    tokenizer = load_any_encoder(folders["bert"])[1]
    words, endless = ["film", "quietly", "a,!" * 42 + "a,", "☂"], "a,!" * 20_000  # the third has as many as are read
    wide = piece_table([*words[:2], endless, *words[2:], "a" + endless], tokenizer)
    assert wide.shape == (6, MOST_PIECES) and torch.equal(wide[[0, 1, 3, 4]], piece_table(words, tokenizer))
    assert wide[2].tolist() == tokenizer(endless, add_special_tokens=False)["input_ids"][:MOST_PIECES]
    assert (wide[3] != NO_PIECE).all(), "none of its pieces is left out"


def test_a_service_reads_a_word_without_end_and_its_table_stays_small(folders, tmp_path):
    p = settings(folders["bert"])
    model, _ = extractor(folders["bert"])
    vocabulary, _ = build_pieces({"train": TEXTS}, load_any_encoder(folders["bert"])[1])
    saved.save_run(tmp_path, Result(model, vocabulary, {}, {}, [], {"epoch": 0}), p, ["bad", "good"])
    run, text = saved.load_run(tmp_path), ["a", "quiet", "film"]
    (before,) = predict(run, [text])
    endless, cut = "a,!" * 20_000, ("a,!" * MOST_PIECES)[:MOST_PIECES]  # each letter is a piece
    assert run.model.predictor.encoder.window < MOST_PIECES, "the word alone is longer than a window"
    first, second, after = predict(run, [[*text, endless, "dull"], [*text, cut, "dull"], text])
    assert first["z"] == second["z"] and first["probabilities"] == second["probabilities"] and after == before
    assert run.model.vectors.shape[1] == MOST_PIECES


def test_the_lower_half_of_the_layers_and_the_embeddings_stay_if_frozen_layers_is_null(folders):
    model, _ = extractor(folders["bert"], frozen_layers=None)
    encoder = model.predictor.encoder
    trained = {name for name, value in encoder.transformer.named_parameters() if value.requires_grad}
    layers = {int(part) for name in trained for part in name.split(".") if part.isdigit()}
    assert layers == set(range(encoder.num_layers // 2, encoder.num_layers))
    assert not any(name.startswith("embeddings") for name in trained)


@pytest.mark.parametrize("name", CONFIGS)
def test_frozen_layers_are_read_in_training_as_in_evaluation(folders, name):
    for frozen, is_random in ((2, False), (1, True)):
        model, batch = extractor(folders[name], frozen_layers=frozen)
        encoder, pieces = model.predictor.encoder, model.embed(batch.tokens)
        for part in encoder.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.1  # ModernBERT has none by default
        before, _ = encoder.eval()(pieces, batch.mask)
        torch.manual_seed(0)
        one, other = (encoder.train()(pieces, batch.mask)[0] for _ in range(2))
        assert torch.equal(one, other) != is_random, f"{frozen} of 2 layers are frozen"
        assert is_random or torch.equal(one, before)


@pytest.mark.parametrize("name", CONFIGS)
def test_training_steps_multiply_in_bfloat16_and_answers_are_in_float32(folders, name):
    pairs = []
    for rounds in (False, True):
        model, batch = extractor(folders[name], bfloat16=rounds)
        for part in model.modules():
            if isinstance(part, nn.Dropout):
                part.p = 0.0
        encoder, pieces = model.predictor.encoder, model.embed(batch.tokens)
        z = batch.mask.float().requires_grad_()
        training, _ = encoder.train().read(pieces, batch.mask, nn.Identity(), z)
        (training[batch.mask] @ torch.linspace(-1, 1, training.shape[-1])).sum().backward()  # a plain sum is constant
        pairs.append((training.detach(), z.grad, encoder.eval()(pieces, batch.mask)[0]))
    (exact, _, answer), (rounded, slope, same) = pairs
    assert rounded.dtype == torch.float32 and not torch.equal(rounded, exact)
    assert slope.isfinite().all() and slope.abs().sum() > 1e-5
    torch.testing.assert_close(rounded, exact, rtol=0.1, atol=0.1)  # 8 bits
    assert torch.equal(answer, same)


def test_on_a_cpu_attention_stays_in_float32_where_matrices_are_multiplied_in_bfloat16():
    parts = torch.randn(3, 2, 4, 9, 8, generator=torch.Generator().manual_seed(0)).unbind()
    half = [part.bfloat16().requires_grad_() for part in parts]
    whole = [part.detach().float().requires_grad_() for part in half]
    mask = (torch.arange(9) < 6).expand(9, 9)
    attend = torch.nn.functional.scaled_dot_product_attention
    with multiplying_in_bfloat16(torch.device("cpu")):
        found = attend(*half[:2], value=half[2], attn_mask=mask)
        assert (parts[0] @ parts[1].mT).dtype == torch.bfloat16
    exact = attend(*whole, attn_mask=mask)
    assert found.dtype == torch.bfloat16 and torch.equal(found, exact.bfloat16())
    (found.float().square().sum() + exact.bfloat16().float().square().sum()).backward()
    for one, other in zip(half, whole, strict=True):
        assert torch.equal(one.grad, other.grad.bfloat16())
    rough = attend(*half, attn_mask=mask).float()
    assert (rough - exact).abs().mean() > (found.float() - exact).abs().mean(), "the sums have 8 bits, too"


def test_a_note_says_that_a_cpu_could_train_faster_in_bfloat16(folders, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    parts = dict.fromkeys(("train", "dev", "test"), TEXTS)
    for rounds, said in ((False, True), (True, False)):
        p = settings(folders["bert"], epochs=1, batch_size=2, device="cpu", bfloat16=rounds)
        training.train_extractor(p, parts, "classes", 2, tmp_path / str(rounds))
        assert ("bfloat16=true" in capsys.readouterr().out) == said


@pytest.mark.parametrize("name", CONFIGS)
def test_no_attention_weight_is_dropped_in_training(folders, name, tmp_path):
    folder = shutil.copytree(folders[name], tmp_path / name)
    config = json.loads((folder / "config.json").read_text())
    config = {key: 0.0 if "dropout" in key or key.endswith("pdrop") else value for key, value in config.items()}
    weights = {key: 0.5 for key in config if "attention" in key and "dropout" in key}
    assert weights, "this architecture can drop attention weights"
    (folder / "config.json").write_text(json.dumps(config | weights))
    model, batch = extractor(str(folder))
    encoder = model.predictor.encoder.train()
    one, other = (encoder(model.embed(batch.tokens), batch.mask)[0] for _ in range(2))
    assert torch.equal(one, other)


def test_pretrained_weights_stay_and_have_a_step_size_of_their_own(folders):
    transformer, _ = load_any_encoder(folders["bert"])
    for shared in (False, True):
        model, _ = extractor(folders["bert"], shared_encoder=shared, frozen_layers=1)
        for part in (model.selector.encoder, model.predictor.encoder):
            for name, value in part.transformer.state_dict().items():
                assert torch.equal(value, transformer.state_dict()[name]), f"{name} is initialised again"
        assert (model.selector.encoder is model.predictor.encoder) == shared
        optimizer = build_optimizer(model, settings(folders["bert"], pretrained_learning_rate=1e-5))
        new, pretrained = optimizer.param_groups
        assert (new["lr"], pretrained["lr"]) == (2e-4, 1e-5)
        inside = {id(p) for part in (model.selector, model.predictor) for p in part.encoder.parameters()}
        assert {id(p) for p in new["params"]} == {id(p) for p in model.parameters()} - inside
        names = {
            name for name, p in transformer.named_parameters() if not name.startswith(("embeddings", "encoder.layer.0"))
        }
        assert len(pretrained["params"]) == len(names) * (1 if shared else 2), "the second layer alone is trained"


@pytest.mark.parametrize("shared", [False, True])
def test_a_trained_run_is_loaded_and_reads_words_that_it_has_never_seen(folders, tmp_path, shared):
    p = settings(folders["distilbert"], shared_encoder=shared, epochs=1, selection=0.5, batch_size=2, device="cpu")
    splits = dict.fromkeys(("train", "dev", "test"), TEXTS)
    result = training.train_extractor(p, splits, "classes", 2, tmp_path)
    saved.save_run(tmp_path, result, p, ["bad", "good"])
    run = saved.load_run(tmp_path)
    texts = [["a", "funny", "film"], ["utterly", "quiet"]]
    rows = list(predict(run, texts))
    assert [row["unknown"] for row in rows] == [[], []], "every word has pieces"
    vocabulary, table = build_pieces(
        {"test": [Example(tuple(text), 0) for text in texts]}, load_any_encoder(p.pretrained)[1]
    )
    model = result.model
    model.vectors = table
    batch = Batches([Example(tuple(text), 0) for text in texts], vocabulary, 2).rows(torch.arange(2))
    with torch.no_grad():
        own = model(batch.tokens, batch.mask)
    for row, answer, z in zip(rows, own.prediction.softmax(1), own.z, strict=True):
        assert list(row["probabilities"].values()) == pytest.approx(answer.tolist(), abs=1e-4)
        assert row["z"] == pytest.approx(z[: len(row["z"])].tolist(), abs=1e-3)


@pytest.mark.parametrize(("file", "session"), [("float16", "float32"), ("float32", "float64")])
@pytest.mark.parametrize("name", CONFIGS)
def test_a_pretrained_encoder_has_the_type_of_the_other_weights_whatever_its_file_has(
    folders, tmp_path, name, file, session
):
    transformer, tokenizer = load_any_encoder(folders[name])
    for part in (transformer.to(getattr(torch, file)), tokenizer):
        part.save_pretrained(tmp_path / "encoder")
    p = settings(str(tmp_path / "encoder"), epochs=1, selection=0.5, device="cpu")
    torch.set_default_dtype(getattr(torch, session))
    try:
        result = training.train_extractor(p, dict.fromkeys(("train", "dev", "test"), TEXTS), "classes", 2, tmp_path)
        saved.save_run(tmp_path, result, p, ["bad", "good"])
        before = saved.load_run(tmp_path)(["a funny film"])
    finally:
        torch.set_default_dtype(torch.float32)
    run = saved.load_run(tmp_path)
    assert {value.dtype for value in run.model.parameters()} == {getattr(torch, session)}
    assert run(["a funny film"]) == before


def test_a_word_of_a_text_that_looks_like_a_special_one_moves_no_other_word(folders, tmp_path):
    p = settings(folders["bert"])
    model, _ = extractor(folders["bert"])
    vocabulary, _ = build_pieces({"train": TEXTS}, load_any_encoder(folders["bert"])[1])
    saved.save_run(tmp_path, Result(model, vocabulary, {}, {}, [], {"epoch": 0}), p, ["bad", "good"])
    (alone,) = predict(saved.load_run(tmp_path), [["utterly", "quiet"]])
    run = saved.load_run(tmp_path)
    list(predict(run, [["<unk>", "<pad>", "zebra"]]))
    (after,) = predict(run, [["utterly", "quiet"]])
    assert after == alone and len(run.vocabulary) == len(run.model.vectors)


def test_a_service_forgets_the_words_of_earlier_texts_before_their_table_is_long(folders, tmp_path, monkeypatch):
    p = settings(folders["bert"])
    model, _ = extractor(folders["bert"])
    vocabulary, _ = build_pieces({"train": TEXTS}, load_any_encoder(folders["bert"])[1])
    saved.save_run(tmp_path, Result(model, vocabulary, {}, {}, [], {"epoch": 0}), p, ["bad", "good"])
    texts = [[f"word{i}", "funny", f"quiet{i}"] for i in range(40)]
    wanted = [row for text in texts for row in predict(saved.load_run(tmp_path), [text])]
    run = saved.load_run(tmp_path)
    before, learned = run.model.vectors.numel(), len(run.vocabulary)
    monkeypatch.setattr(answers, "MOST_ADDED", 45)
    sizes = []
    for text, expected in zip(texts, wanted, strict=True):
        (found,) = predict(run, [text])
        assert found == expected, "an answer does not depend on what was forgotten"
        sizes.append(run.model.vectors.numel() - before)
        assert len(run.vocabulary) == len(run.model.vectors)
    assert 25 < max(sizes) <= 45, "the limit, as no text alone needs more"
    assert len(run.vocabulary) < learned + 80, "some words were forgotten"
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: next(predict(run, [text])), texts * 3))
    assert found == wanted * 3, "nor on what other threads forget"


def test_settings_without_effect_and_checkpoints_that_are_none_are_refused(folders, tmp_path):
    with pytest.raises(BadInput, match="frozen_layers: 2 is not accepted with encoder lstm"):
        ExtractionSettings.checked({"frozen_layers": 2})
    with pytest.raises(BadInput, match="pretrained: bert is not accepted with encoder minilm; .*encoder=transformer"):
        ExtractionSettings.checked({"encoder": "minilm", "pretrained": "bert"})
    with pytest.raises(BadInput, match="pretrained: .* cannot be loaded"):
        PretrainedEncoder.build(0, settings(str(tmp_path)))


def test_the_setting_encoder_takes_a_folder_or_a_name_on_the_hub(folders, tmp_path, monkeypatch):
    monkeypatch.chdir(Path(folders["bert"]).parent)
    name = Path(folders["bert"]).name
    assert ExtractionSettings.check("encoder", f"./{name}") == folders["bert"], "a run works in another folder"
    for given in ("hub:google/tiny", "google/tiny"):
        assert ExtractionSettings.check("encoder", given) == "google/tiny"
    (Path("google") / "tiny").mkdir(parents=True)
    assert ExtractionSettings.check("encoder", "google/tiny").endswith("/google/tiny"), "a folder comes first"
    assert ExtractionSettings.check("encoder", "hub:google/tiny") == "google/tiny"
    for wrong in ("lstn", "hub:", "hub:a/b/c", "hub:rcnn"):
        with pytest.raises(BadInput, match=r"encoder: .* give one of .*, or the path of a folder .* on the hub"):
            ExtractionSettings.check("encoder", wrong)
    own = ExtractionSettings(encoder=folders["bert"], vectors="random", shared_encoder=True)
    usual = settings(folders["bert"], shared_encoder=True)
    vocabulary, table = build_pieces({"train": TEXTS}, find_encoder(own.encoder).tokenizer(own))
    models = []
    for p in (own, usual):
        torch.manual_seed(1)
        models.append(build_extractor(p, table, "classes", 2).state_dict())
    assert all(torch.equal(models[0][key], models[1][key]) for key in models[1]) and len(vocabulary) == len(table)


def test_a_run_records_the_revision_of_an_encoder_on_the_hub_and_the_digest_of_a_folder(folders, tmp_path, monkeypatch):
    commit, cache = "0123456789abcdef" * 2 + "01234567", tmp_path / "models--google--tiny"
    shutil.copytree(folders["bert"], cache / "snapshots" / commit)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    for name in ("on_reading", "on_revision"):
        heard: list = []
        for module in (digests, inputs):
            monkeypatch.setattr(module, name, heard)
    record = tmp_path / "environment.txt"
    record.write_text("notebook: 12_train_sst\n")
    record_files_read(tmp_path)
    for encoder in ("google/tiny", folders["bert"]):
        for _ in range(2):
            PretrainedEncoder.build(0, ExtractionSettings.checked({"encoder": encoder, "vectors": "random"}))
    lines = record.read_text().splitlines()
    assert lines.count(f"revision of google/tiny: {commit}") == 1
    assert sum(line.startswith("read: ") and line.endswith(f" {folders['bert']}") for line in lines) == 1
    record_files_read(tmp_path)  # what this process has read before is written at once
    assert read_environment(tmp_path)["revision of google/tiny"] == commit


def test_an_encoder_that_cannot_be_loaded_stops_a_run_before_anything_is_read(folders, tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    damaged = shutil.copytree(folders["bert"], tmp_path / "damaged")
    (damaged / "model.safetensors").unlink()
    training.require_words(settings(folders["bert"]))
    for given, message in (
        ("nobody/has-this-model", r"^encoder: nobody/has-this-model cannot be loaded .* offline take minilm"),
        (str(tmp_path / "nowhere"), r"^encoder: .*/nowhere is no folder; accepted: "),
        (str(damaged), r"^encoder: .*/damaged cannot be loaded \(.*model.safetensors"),
    ):
        p = ExtractionSettings.checked({"encoder": given, "vectors": "random"})
        with pytest.raises(BadInput, match=message) as caught:
            training.require_words(p)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "options"),
    [
        ("BartConfig", {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2,
                        "decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}),
        ("XLNetConfig", {"d_model": 8, "n_layer": 1, "n_head": 2, "d_inner": 8}),
        ("T5Config", {"d_model": 8, "d_kv": 4, "d_ff": 8, "num_layers": 1, "num_heads": 2}),
    ],
)  # fmt: skip
def test_a_transformer_that_reads_no_embedded_pieces_is_refused_at_once(folders, tmp_path, config, options):
    shutil.copytree(folders["bert"], tmp_path, dirs_exist_ok=True)
    chosen = getattr(transformers, config)(vocab_size=len(vocabulary_of_pieces()), pad_token_id=0, **options)
    transformers.AutoModel.from_config(chosen).save_pretrained(tmp_path)
    p = ExtractionSettings.checked({"encoder": str(tmp_path), "vectors": "random"})
    with pytest.raises(BadInput, match="^encoder: .* is a .*Model, which cannot read embedded pieces") as caught:
        training.require_words(p)
    assert "\n" not in str(caught.value)
