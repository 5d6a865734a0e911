"""The fast forms: each computes what a readable form elsewhere computes, and is used by default.

    scan_both_ways   rcnn.scan_both_ways           the loop over a text
    select           selector.select_in_order      dependent gates
    kept_units       nn.Dropout                    different random numbers from the same distribution
    apply_to_joined  layers(torch.cat([x, y], -1))

(`fast_rows` computes the rows of the sparse mappings.) Each fast form saves at least 10 % of a training step
(`make bench`), except for `apply_to_joined`, which rounds its sums in another order: without it, the numbers of older
runs would change.
tests/test_recurrence.py, test_encoders.py and test_aligner.py compare values and gradients.

The two scans are loops over time whose forward and backward passes are written out. Everything that does not depend on
the previous step (projections of the inputs, gradients of the weights, slopes of the activations) is computed for all
steps at once, outside the loop; the loop holds one small matrix product and a few elementwise steps.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.distributions.numerics import log_uniform
from rationale.distributions.protocol import GateDistribution
from rationale.nn.gates import Gate
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


# ------------------------------------------------------------------------------------------------ a text, both ways
def scan_both_ways(ahead: RCNNCell, back: RCNNCell, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The same as `rcnn.scan_both_ways`, with both cells in one loop."""
    cells = (ahead, back)
    inputs, keep = inputs.transpose(0, 1), mask.T.unsqueeze(-1)  # [T, B, E], [T, B, 1]
    weight = torch.stack([cell.inputs.weight.unflatten(0, (3, -1)).mT for cell in cells], 1)  # [3, 2, E, H]
    states = Scan.apply(
        torch.stack([inputs, inputs.flip(0)]),
        weight,
        torch.stack([cell.recurrent.bias for cell in cells]).unsqueeze(1),
        torch.stack([cell.recurrent.weight.T for cell in cells]),
        torch.stack([cell.bias for cell in cells]).unsqueeze(1),
        torch.stack([keep, keep.flip(0)]),
    )  # [2, T, B, H]
    final = torch.cat([*states[:, -1]], -1)
    return torch.cat([states[0], states[1].flip(0)], -1).transpose(0, 1), final


class Scan(torch.autograd.Function):
    """h = Scan.apply(inputs, weight, gate_bias, recurrent, bias, keep): D directions of an RCNN over T steps.

    inputs [D, T, B, E]; weight [3, D, E, H], the transposed W_1, W_2, W_g; recurrent [D, H, H], the transposed U;
    gate_bias, bias [D, 1, H]; keep bool [D, T, B, 1] -> states [D, T, B, H]. Where `keep` is False the step is skipped:
    the whole state stays the same.

    c1 and c2 are stored in one tensor [2, D, B, H]. Both are updated as c' = g c + (1 - g) v, with v = W_1 x for c1 and
    v = c1 + W_2 x for c2. As c - c' = (1 - g) (c - v), the gradient of the raw gate is g times the sum over both of
    (gradient of c') (c - c'), so v is not kept for the backward pass.
    """

    @staticmethod
    def forward(ctx, inputs, weight, gate_bias, recurrent, bias, keep):
        directions, steps, rows, _ = inputs.shape
        size = recurrent.shape[-1]
        projected = inputs.new_empty(3, directions, steps * rows, size)  # W_1 x, W_2 x, W_g x + b_g
        for k in (0, 1):
            torch.bmm(inputs.flatten(1, 2), weight[k], out=projected[k])
        torch.baddbmm(gate_bias, inputs.flatten(1, 2), weight[2], out=projected[2])
        projected = projected.view(3, directions, steps, rows, size)
        hidden = inputs.new_empty(steps + 1, directions, rows, size)
        gates = torch.empty_like(hidden[1:])
        sums = inputs.new_empty(steps + 1, 2, directions, rows, size)  # c1, c2
        hidden[0], sums[0] = 0, 0
        h, c, incoming = hidden.unbind(0), sums.unbind(0), projected[:2].unbind(2)
        steps_of = zip(projected[2].unbind(1), projected[1].unbind(1), gates.unbind(0), (~keep).unbind(1), strict=True)
        for t, (gate, second, g, skip) in enumerate(steps_of):
            raw = torch.baddbmm(gate, h[t], recurrent)
            torch.sigmoid(raw.masked_fill_(skip, torch.inf), out=g)  # where g is 1, c1 and c2 stay the same
            second.add_(c[t][0])
            torch.lerp(incoming[t], c[t], g, out=c[t + 1])  # g c + (1 - g) v
            torch.where(skip, h[t], (c[t + 1][1] + bias).tanh_(), out=h[t + 1])
        ctx.save_for_backward(inputs, weight, recurrent, keep, hidden, sums, gates)
        return hidden[1:].transpose(0, 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_states):
        inputs, weight, recurrent, keep, hidden, sums, gates = ctx.saved_tensors
        _, directions, _, rows, size = sums.shape
        steps = len(hidden) - 1
        grad_projected = inputs.new_empty(3, directions, steps, rows, size)
        grad_bias = torch.zeros_like(hidden[0])
        transposed, read, grad_states = recurrent.mT, keep.to(inputs).unbind(1), grad_states.unbind(1)
        grad_incoming = grad_projected[:2].unbind(2)
        grad_second, grad_gate = (part.unbind(1) for part in grad_projected[1:])
        states, before, gates = hidden[1:].unbind(0), sums.unbind(0), gates.unbind(0)
        h, c = torch.zeros_like(hidden[0]), torch.zeros_like(sums[0])
        for t in reversed(range(steps)):
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
        grad_projected, before = grad_projected.flatten(2, 3), hidden[:-1].transpose(0, 1).flatten(1, 2)
        grad_weight = torch.stack([inputs.flatten(1, 2).mT @ part for part in grad_projected])
        grad_inputs = None
        if ctx.needs_input_grad[0]:
            grad_inputs = torch.bmm(grad_projected[0], weight[0].mT)
            for k in (1, 2):
                grad_inputs.baddbmm_(grad_projected[k], weight[k].mT)
            grad_inputs = grad_inputs.view_as(inputs)
        grad_gate_bias = grad_projected[2].sum(1, keepdim=True)
        return (
            grad_inputs,
            grad_weight,
            grad_gate_bias,
            before.mT @ grad_projected[2],
            grad_bias.sum(1, keepdim=True),
            None,
        )


# ---------------------------------------------------------------------------------------------------- dependent gates
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
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_hidden, grad_first, grad_second, _):
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
