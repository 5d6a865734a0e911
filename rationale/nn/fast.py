"""The fast forms: each computes what a readable form elsewhere computes, and is used by default.

    scan_both_ways   rcnn.scan_both_ways           the loop over a text
    select           selector.select_in_order      dependent gates
    kept_units       nn.Dropout                    different random numbers from the same distribution
    Blocks.read      nn.LSTM over padded rows      rows that have ended are left out of the later steps
    apply_to_joined  layers(torch.cat([x, y], -1))

(`mappings.fast_rows` computes the rows of the sparse mappings.) Each fast form saves at least 10 % of a training step
(`make bench`), except for `apply_to_joined`, which rounds its sums in another order: without it, the numbers of older
runs would change.
tests/test_recurrence.py, test_encoders.py and test_aligner.py compare values and gradients.

The two scans are loops over time whose forward and backward passes are written out. Everything that does not depend on
the previous step (projections of the inputs, gradients of the weights, slopes of the activations) is computed for all
steps at once, outside the loop; the loop holds one small matrix product and a few elementwise steps.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.distributions.numerics import log_uniform
from rationale.distributions.protocol import GateDistribution
from rationale.nn.gates import Gate
from rationale.nn.precision import in_float32
from rationale.nn.rcnn import RCNNCell
from rationale.nn.sampling import Draw, log_switches, sample


# ---------------------------------------------------------------------------------------------------- dropout, layers
def kept_units(like: Tensor, p: float) -> Tensor:
    """The factors of dropout for the units of `like`, on a CPU: 0 with probability p, else the scale.

    p is at most 255/256. One draw of 64 random bits decides for eight units. In every call, the share 256 p is rounded
    up or down at random, so a unit is dropped with probability p exactly; the scale belongs to the rounded share.
    """
    share = int(256 * p + torch.rand((), dtype=torch.float64).item())
    scale = 256 / (256 - share)
    draws = torch.empty(-(-like.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
    units = draws.view(torch.int8)[: like.numel()].view(like.shape)
    return units.to(like.dtype).ge_(share - 128).mul_(scale)


def apply_to_joined(layers: nn.Sequential, words: Tensor, others: Tensor) -> Tensor:
    """layers([words; others]), from two tensors [N, H] to [N, S], without copying both into one."""
    first, *rest = layers
    assert isinstance(first, nn.Linear)
    word_weight, other_weight = first.weight.chunk(2, 1)
    units = F.linear(words, word_weight, first.bias) + F.linear(others, other_weight)
    for layer in rest:
        units = layer(units)
    return units


# ------------------------------------------------------------------------------------- rows of very different lengths
MOST_PADDING = 0.25  # share of the positions of a batch, above which it is read in blocks
NUM_BLOCKS = 2


class Blocks(NamedTuple):
    """How to read a padded batch in blocks of steps, each with only those rows that have not ended before it.

    Packed sequences leave out every row at its end, and take one call of the library per step. A few blocks, in each of
    which torch reads padded rows, are faster.
    """

    order: Tensor  # long [B]: numbers of the rows, the longest first
    place: Tensor  # long [B], its inverse
    blocks: tuple[tuple[int, int, int], ...]  # (first step, last step + 1, number of rows)

    @classmethod
    def of(cls, mask: Tensor) -> "Blocks | None":
        """The blocks of a batch with this mask, bool [B, T], whose real tokens come first in each row.

        None: the batch is better read as it is, because it has little padding or is not on the CPU, or the graph is
        being exported, in which nothing may depend on the lengths.
        """
        if mask.device.type != "cpu" or torch.compiler.is_compiling():
            return None
        lengths, order = mask.sum(1).sort(descending=True)
        sizes = lengths.tolist()
        if sum(sizes) >= (1 - MOST_PADDING) * mask.numel() or not sizes[0]:
            return None
        ends = sorted({sizes[len(sizes) * k // NUM_BLOCKS] for k in range(NUM_BLOCKS)} - {0})  # the last is the longest
        rows = [sum(size > start for size in sizes) for start in [0, *ends[:-1]]]
        return cls(order, order.argsort(), tuple(zip([0, *ends[:-1]], ends, rows, strict=True)))

    def read(self, lstm: nn.LSTM, inputs: Tensor) -> Tensor:
        """The states [B, T, H] of the inputs [B, T, E], as `lstm(inputs)[0]`; meaningless at padding."""
        ordered, states, state = inputs.index_select(0, self.order), [], None
        for start, end, rows in self.blocks:
            if state is not None:
                state = state[0][:, :rows].contiguous(), state[1][:, :rows].contiguous()
            read, state = lstm(ordered[:rows, start:end], state)
            states.append(F.pad(read, (0, 0, 0, 0, 0, len(inputs) - rows)))
        missing = inputs.shape[1] - self.blocks[-1][1]  # steps that no row has
        return F.pad(torch.cat(states, 1).index_select(0, self.place), (0, 0, 0, missing))


# ------------------------------------------------------------------------------------------------ a text, both ways
def _refuse_second_derivatives(readable: str) -> None:
    """The backward pass of a scan records no graph, so what it returns could not be differentiated again."""
    if torch.is_grad_enabled():
        raise RuntimeError(
            f"the fast scan of an RCNN has no second derivative (create_graph=True); its readable form has: {readable}"
        )


def as_it_is(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: `torch.compile` calls this loop over a text as it is. It would write out every step otherwise."""

    @functools.wraps(loop)
    def call(*args: Any, **options: Any) -> Any:
        if torch.compiler.is_dynamo_compiling():
            from rationale.nn.outside_graph import call_outside  # imports the compiler

            return call_outside(loop, *args, **options)
        return loop(*args, **options)

    return call


@as_it_is
@in_float32
def scan_both_ways(
    ahead: RCNNCell, back: RCNNCell, inputs: Tensor, mask: Tensor, z: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """The same as `rcnn.scan_both_ways`, with both cells in one loop; with gates z [B, T], of `inputs * z`."""
    cells = (ahead, back)
    inputs, keep = inputs.transpose(0, 1), mask.T.unsqueeze(-1)  # [T, B, E], [T, B, 1]
    inputs = inputs.masked_fill(~keep, 0.0)  # 0 times a NaN would not be 0
    if z is not None:
        z = z.T.unsqueeze(-1).masked_fill(~keep, 0.0)  # [T, B, 1]
    weight = torch.stack([cell.inputs.weight.unflatten(0, (3, -1)).mT for cell in cells], 1)  # [3, 2, E, H]
    states, final = Scan.apply(
        torch.stack([inputs, inputs.flip(0)]),
        weight,
        torch.stack([cell.recurrent.bias for cell in cells]).unsqueeze(1),
        torch.stack([cell.recurrent.weight.T for cell in cells]),
        torch.stack([cell.bias for cell in cells]).unsqueeze(1),
        torch.stack([keep, keep.flip(0)]),
        None if z is None else torch.stack([z, z.flip(0)]),
    )  # [2, T, B, H], [2, B, H]
    forward, backward = states.unbind(0)
    return torch.cat([forward, backward.flip(0)], -1).transpose(0, 1), torch.cat([*final], -1)


class Scan(torch.autograd.Function):
    """h, last = Scan.apply(inputs, weight, gate_bias, recurrent, bias, keep, z): D directions of an RCNN, T steps.

    inputs [D, T, B, E]; weight [3, D, E, H], the transposed W_1, W_2, W_g; recurrent [D, H, H], the transposed U;
    gate_bias, bias [D, 1, H]; keep bool [D, T, B, 1] -> states [D, T, B, H], the last of them [D, B, H]. Where `keep`
    is False the step is skipped: the whole state stays the same. The last states are returned by themselves because
    most models use either them or all states; the backward pass reads no gradient of what was not used.

    With z [D, T, B, 1], the RCNN reads z x instead of x. As W (z x) = z (W x), the gradient of z is the product of W x
    and the gradient of W (z x), summed over the units: the gradient of the inputs, a matrix product, is not needed.

    c1 and c2 are stored in one tensor [2, D, B, H]. Both are updated as c' = g c + (1 - g) v, with v = W_1 x for c1 and
    v = c1 + W_2 x for c2. As c - c' = (1 - g) (c - v), the gradient of the raw gate is g times the sum over both of
    (gradient of c') (c - c'), so v is not kept for the backward pass.
    """

    @staticmethod
    def forward(ctx, inputs, weight, gate_bias, recurrent, bias, keep, z):
        directions, steps, rows, _ = inputs.shape
        size = recurrent.shape[-1]
        projected = inputs.new_empty(3, directions, steps * rows, size)  # W_1 x, W_2 x, W_g x + b_g (with z, no b_g)
        for k in (0, 1):
            torch.bmm(inputs.flatten(1, 2), weight[k], out=projected[k])
        torch.baddbmm(gate_bias, inputs.flatten(1, 2), weight[2], beta=1 if z is None else 0, out=projected[2])
        projected = projected.view(3, directions, steps, rows, size)
        hidden = inputs.new_empty(steps + 1, directions, rows, size)
        gates = torch.empty_like(hidden[1:])
        sums = inputs.new_empty(steps + 1, 2, directions, rows, size)  # c1, c2
        hidden[0], sums[0] = 0, 0
        h, c, incoming = hidden.unbind(0), sums.unbind(0), projected[:2].unbind(2)
        kept = None if z is None else z.unbind(1)
        steps_of = zip(projected[2].unbind(1), gates.unbind(0), (~keep).unbind(1), strict=True)
        for t, (gate, g, skip) in enumerate(steps_of):
            values = incoming[t]
            if kept is not None:
                values, gate = values * kept[t], torch.addcmul(gate_bias, gate, kept[t])
            raw = torch.baddbmm(gate, h[t], recurrent)
            torch.sigmoid(raw.masked_fill_(skip, torch.inf), out=g)  # where g is 1, c1 and c2 stay the same
            values[1].add_(c[t][0])
            torch.lerp(values, c[t], g, out=c[t + 1])  # g c + (1 - g) v
            torch.where(skip, h[t], (c[t + 1][1] + bias).tanh_(), out=h[t + 1])
        ctx.save_for_backward(inputs, weight, recurrent, keep, hidden, sums, gates, z, None if z is None else projected)
        ctx.set_materialize_grads(False)
        return hidden[1:].transpose(0, 1), hidden[-1].clone()

    @staticmethod
    @in_float32
    def backward(ctx, grad_states, grad_last):
        _refuse_second_derivatives("scan_both_ways of rationale.nn.rcnn")
        inputs, weight, recurrent, keep, hidden, sums, gates, z, projected = ctx.saved_tensors
        _, directions, _, rows, size = sums.shape
        steps = len(hidden) - 1
        grad_projected = inputs.new_empty(3, directions, steps, rows, size)
        grad_bias = torch.zeros_like(hidden[0])
        transposed, read = recurrent.mT, keep.to(inputs).unbind(1)
        grad_states = None if grad_states is None else grad_states.unbind(1)
        grad_incoming = grad_projected[:2].unbind(2)
        grad_second, grad_gate = (part.unbind(1) for part in grad_projected[1:])
        states, before, gates = hidden[1:].unbind(0), sums.unbind(0), gates.unbind(0)
        h = torch.zeros_like(hidden[0]) if grad_last is None else grad_last.clone()
        c = torch.zeros_like(sums[0])
        for t in reversed(range(steps)):
            if grad_states is not None:
                h += grad_states[t]
            through = h * read[t]
            h -= through
            grad_sum = torch.ops.aten.tanh_backward(through, states[t])
            grad_bias += grad_sum
            c[1] += grad_sum
            one, two = (before[t] - before[t + 1]).mul_(c)
            torch.mul(one + two, gates[t], out=grad_gate[t])
            kept = c * gates[t]
            torch.sub(c, kept, out=grad_incoming[t])  # (1 - g) times the gradient of c'
            c = kept
            c[0] += grad_second[t]
            h.baddbmm_(grad_gate[t], transposed)
        grad_z = None
        if z is not None:
            grad_z = torch.linalg.vecdot(grad_projected, projected).sum(0).unsqueeze(-1)
            inputs = inputs * z
        grad_projected, before = grad_projected.flatten(2, 3), hidden[:-1].transpose(0, 1).flatten(1, 2)
        grad_weight = torch.stack([inputs.flatten(1, 2).mT @ part for part in grad_projected])
        grad_inputs = None
        if ctx.needs_input_grad[0]:
            grad_inputs = torch.bmm(grad_projected[0], weight[0].mT)
            for k in (1, 2):
                grad_inputs.baddbmm_(grad_projected[k], weight[k].mT)
            grad_inputs = grad_inputs.view_as(inputs) * (1 if z is None else z)
        grad_gate_bias = grad_projected[2].sum(1, keepdim=True)
        return (
            grad_inputs,
            grad_weight,
            grad_gate_bias,
            before.mT @ grad_projected[2],
            grad_bias.sum(1, keepdim=True),
            None,
            grad_z,
        )


# ---------------------------------------------------------------------------------------------------- dependent gates
@as_it_is
@in_float32
def select(
    gate: Gate, cell: RCNNCell, states: Tensor, draw: Draw, look_ahead: bool = False
) -> tuple[Tensor, GateDistribution, Tensor | None]:
    """The same as `selector.select_in_order`: z [B, T], the gates, and the log-probability of a switch or None."""
    states = states.transpose(0, 1)  # [T, B, S]
    weight, bias = gate.linear()
    state_weight, memory_weight = weight.split((states.shape[-1], cell.hidden_size), 1)
    raw_states = F.linear(states, state_weight, bias)  # [T, B, G]: the part of raw that does not depend on the memory
    state_weight, z_weight = cell.inputs.weight.split((states.shape[-1], 1), 1)
    projected = F.linear(states, state_weight, cell.input_bias)  # [T, B, 3H]: the cell's input without z
    noise = log_uniform(raw_states.shape[:2], raw_states) if draw is sample and gate.has_rsample else None

    def decide(raw: Tensor, t: int) -> Tensor:
        return draw(gate.of(raw)) if noise is None else gate.of(raw).rsample_at(noise[t])

    def slopes(raw: Tensor) -> Tensor | None:
        if noise is None:
            return None
        with torch.enable_grad():
            raw = raw.detach().requires_grad_()
            return torch.autograd.grad(gate.of(raw).rsample_at(noise).sum(), raw)[0]

    recurrent, bias, z_weight = cell.recurrent.weight, cell.bias, z_weight.squeeze(1)
    *memory, z = MemoryScan.apply(raw_states, projected, memory_weight, recurrent, bias, z_weight, decide, slopes)
    raw = raw_states + F.linear(memory[0], memory_weight)  # [T, B, G]: as in the loop, for all steps at once
    gates, switches = gate.of(raw.transpose(0, 1)), None
    if noise is not None:
        drawn = gates.rsample_at(noise.T)
        z = drawn.T + (z - drawn.T).detach()  # exactly the value from the loop, with the gradient of `drawn`
        if look_ahead:
            before = [part[:-1] for part in memory]

            def after(value: Tensor) -> GateDistribution:
                hidden, _, _ = cell(projected[:-1] + value.unsqueeze(-1) * z_weight, before)
                return gate.of(raw_states[1:] + F.linear(hidden, memory_weight))

            switches = log_switches(gate.of(raw[:-1]), noise[:-1], after).T
    return z.T, gates, switches


class MemoryScan(torch.autograd.Function):
    """h, c1, c2, z = MemoryScan.apply(raw_states, projected, memory_weight, recurrent, bias, z_weight, decide, slopes)

    An RCNN whose inputs include its own decisions: z_t depends on the state before step t, and the state after step t
    depends on z_t.

        raw_t   = raw_states_t + memory_weight h_{t-1},   z_t = decide(raw_t, t)
        state_t = cell(projected_t + z_weight z_t, state_{t-1})

    raw_states [T, B, G], projected [T, B, 3H] with b_g in its last third, memory_weight [G, H], recurrent [H, H],
    bias [H], z_weight [3H] -> the state *before* each step, three tensors [T, B, H], and z [T, B]. The gradients of
    the states include the paths through all z. The returned z has no gradient: the caller computes it again from h,
    for all steps at once.

    decide(raw [B, G], t) -> z [B]; slopes(raw [T, B, G]) -> dz / d raw [T, B, G], or None if draws pass no gradient.
    """

    @staticmethod
    def forward(ctx, raw_states, projected, memory_weight, recurrent, bias, z_weight, decide, slopes):
        size = len(bias)
        joint = torch.cat([recurrent, memory_weight]).T  # one matrix product per step
        state = (torch.zeros_like(projected[0, :, :size]),) * 3
        states, gates, z = [state], [], []
        for t, (inputs, raw_state) in enumerate(zip(projected.unbind(0), raw_states.unbind(0), strict=True)):
            gate_memory, raw_memory = (states[t][0] @ joint).split((size, len(memory_weight)), 1)
            z.append(decide(raw_state + raw_memory, t))
            one, two, gate = torch.addcmul(inputs, z[t].unsqueeze(1), z_weight).chunk(3, 1)
            gates.append((gate + gate_memory).sigmoid_())
            _, first, second = states[t]
            second = torch.lerp(first + two, second, gates[t])
            states.append((torch.tanh(second + bias), torch.lerp(one, first, gates[t]), second))
        drawn = torch.stack(z)
        hidden, first, second = (torch.stack(parts) for parts in zip(*states, strict=True))  # [T + 1, B, H]
        ctx.slopes = slopes
        ctx.save_for_backward(
            raw_states, memory_weight, recurrent, z_weight, hidden, first, second, torch.stack(gates), drawn
        )
        ctx.mark_non_differentiable(drawn)
        return hidden[:-1], first[:-1], second[:-1], drawn

    @staticmethod
    @in_float32
    def backward(ctx, grad_hidden, grad_first, grad_second, _):
        _refuse_second_derivatives("select_in_order of rationale.models.selector")
        raw_states, memory_weight, recurrent, z_weight, hidden, first, second, gates, z = ctx.saved_tensors
        size, steps = recurrent.shape[0], range(len(gates))
        through_first, through_second = ((gates * (c[:-1] - c[1:])).unbind(0) for c in (first, second))  # as in Scan
        curve, gates = (1 - hidden[1:].square()).unbind(0), gates.unbind(0)
        raw = raw_states + hidden[:-1] @ memory_weight.T
        slope = ctx.slopes(raw)  # dz / d raw; multiplied below by the gradient of z
        joint = recurrent if slope is None else torch.cat([recurrent, memory_weight])
        h = c1 = c2 = torch.zeros_like(hidden[0])
        of_inputs, of_raw_states, of_bias = [], [], []  # gradients of each step, the last step first
        for t in reversed(steps):
            of_bias.append(h * curve[t])
            c2 = c2 + of_bias[-1]
            grad_gate = torch.addcmul(c2 * through_second[t], c1, through_first[t])
            kept1, kept2 = c1 * gates[t], c2 * gates[t]
            grad_two = c2 - kept2
            of_inputs.append(torch.cat([c1 - kept1, grad_two, grad_gate], 1))  # [B, 3H]
            if slope is not None:
                of_raw_states.append((of_inputs[-1] @ z_weight).unsqueeze(1) * slope[t])
                grad_gate = torch.cat([grad_gate, of_raw_states[-1]], 1)
            h = torch.addmm(grad_hidden[t], grad_gate, joint)
            c1, c2 = grad_first[t] + kept1 + grad_two, grad_second[t] + kept2
        grad_inputs, grad_bias = torch.stack(of_inputs[::-1]), torch.stack(of_bias[::-1]).sum((0, 1))
        before = hidden[:-1].flatten(0, 1)
        grad_recurrent = grad_inputs[..., 2 * size :].flatten(0, 1).T @ before
        grad_z_weight = grad_inputs.flatten(0, 1).T @ z.flatten()
        if slope is None:
            return None, grad_inputs, None, grad_recurrent, grad_bias, grad_z_weight, None, None
        grad_raw_states = torch.stack(of_raw_states[::-1])
        return (
            grad_raw_states,
            grad_inputs,
            grad_raw_states.flatten(0, 1).T @ before,
            grad_recurrent,
            grad_bias,
            grad_z_weight,
            None,
            None,
        )
