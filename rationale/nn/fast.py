"""The fast forms: each computes what a readable form elsewhere computes, and is used by default.

    scan_both_ways   rcnn.scan_both_ways           the loop over a text
    select           selector.select_in_order      dependent gates
    kept_units       nn.Dropout                    other random numbers, of the same distribution
    apply_to_joined  layers(torch.cat([x, y], -1))

(`fast_rows` holds the rows of the sparse mappings.) Each earns its place with 10 % of a training step, but for
`apply_to_joined`, whose sums are rounded in another order: without it the numbers of older runs would move.
tests/test_recurrence.py, test_encoders.py and test_aligner.py compare values and gradients.

The two scans are loops over time whose forward and backward passes are written out. Everything that does not depend on
the step before (projections of the inputs, gradients of the weights, slopes of the activations) is computed for all
steps at once, outside the loop; the loop holds one small matrix product and a few elementwise steps.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from rationale.distributions.numerics import log_uniform
from rationale.nn.gates import Gate
from rationale.nn.rcnn import RCNNCell
from rationale.nn.sampling import Draw, GateDistribution, log_switches, sample


# ---------------------------------------------------------------------------------------------------- dropout, layers
def kept_units(like: Tensor, p: float) -> Tensor:
    """What dropout multiplies the units of `like` by, on a CPU: 0 with probability p, else the scale.

    p is at most 255/256. One draw of 64 bits decides on eight units. The share 256 p is rounded up or down at random,
    anew in every call, so a unit is dropped with probability p exactly; the scale is the one for the rounded share.
    """
    share = int(256 * p + torch.rand((), dtype=torch.float64).item())
    scale = 256 / (256 - share)
    draws = torch.empty(-(-like.numel() // 8), dtype=torch.int64).random_(-(2**63), None)
    units = draws.view(torch.int8)[: like.numel()].view(like.shape)
    return units.to(like.dtype).ge_(share - 128).mul_(scale)


def apply_to_joined(layers: nn.Sequential, words: Tensor, others: Tensor) -> Tensor:
    """layers([words; others]) [N, S] of [N, H] each, without the copy that joining them makes."""
    first, *rest = layers
    assert isinstance(first, nn.Linear)
    of_words, of_others = first.weight.chunk(2, 1)
    units = F.linear(words, of_words, first.bias) + F.linear(others, of_others)
    for layer in rest:
        units = layer(units)
    return units


# ------------------------------------------------------------------------------------------------ a text, both ways
def scan_both_ways(ahead: RCNNCell, back: RCNNCell, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """`rcnn.scan_both_ways`, both cells in one loop."""
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
    all of the state stays what it was.

    c1 and c2 stand in one tensor [2, D, B, H]. As c - c' = (1 - g) (c - what came in), the gradient of the raw gate is
    g times the sum over both of (gradient of c') (c - c'): nothing of what came in is kept for the backward pass.
    """

    @staticmethod
    def forward(ctx, inputs, weight, gate_bias, recurrent, bias, keep):
        directions, steps, rows, _ = inputs.shape
        size = recurrent.shape[-1]
        taken = inputs.new_empty(3, directions, steps * rows, size)  # W_1 x, W_2 x, W_g x + b_g
        for k in (0, 1):
            torch.bmm(inputs.flatten(1, 2), weight[k], out=taken[k])
        torch.baddbmm(gate_bias, inputs.flatten(1, 2), weight[2], out=taken[2])
        taken = taken.view(3, directions, steps, rows, size)
        hidden = inputs.new_empty(steps + 1, directions, rows, size)
        gates = torch.empty_like(hidden[1:])
        sums = inputs.new_empty(steps + 1, 2, directions, rows, size)  # c1, c2
        hidden[0], sums[0] = 0, 0
        h, c, into = hidden.unbind(0), sums.unbind(0), taken[:2].unbind(2)
        steps_of = zip(taken[2].unbind(1), taken[1].unbind(1), gates.unbind(0), (~keep).unbind(1), strict=True)
        for t, (gate, second, g, skip) in enumerate(steps_of):
            raw = torch.baddbmm(gate, h[t], recurrent)
            torch.sigmoid(raw.masked_fill_(skip, torch.inf), out=g)  # 1: c1 and c2 stay what they were
            second.add_(c[t][0])
            torch.lerp(into[t], c[t], g, out=c[t + 1])  # g c + (1 - g) what came in
            torch.where(skip, h[t], (c[t + 1][1] + bias).tanh_(), out=h[t + 1])
        ctx.save_for_backward(inputs, weight, recurrent, keep, hidden, sums, gates)
        return hidden[1:].transpose(0, 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, of_states):
        inputs, weight, recurrent, keep, hidden, sums, gates = ctx.saved_tensors
        _, directions, _, rows, size = sums.shape
        steps = len(hidden) - 1
        of_taken = inputs.new_empty(3, directions, steps, rows, size)
        of_bias = torch.zeros_like(hidden[0])
        transposed, read, of_states = recurrent.mT, keep.to(inputs).unbind(1), of_states.unbind(1)
        into, of_gate, of_second = of_taken[:2].unbind(2), of_taken[2].unbind(1), of_taken[1].unbind(1)
        states, before, gates = hidden[1:].unbind(0), sums.unbind(0), gates.unbind(0)
        h, c = torch.zeros_like(hidden[0]), torch.zeros_like(sums[0])
        for t in reversed(range(steps)):
            h += of_states[t]
            through = h * read[t]
            h -= through
            bent = torch.ops.aten.tanh_backward(through, states[t])
            of_bias += bent
            c[1] += bent
            one, two = (before[t] - before[t + 1]).mul_(c)
            torch.mul(one + two, gates[t], out=of_gate[t])
            kept = c * gates[t]
            torch.sub(c, kept, out=into[t])  # (1 - g) c
            c = kept
            c[0] += of_second[t]
            h.baddbmm_(of_gate[t], transposed)
        of_taken, before = of_taken.flatten(2, 3), hidden[:-1].transpose(0, 1).flatten(1, 2)
        of_weight = torch.stack([inputs.flatten(1, 2).mT @ part for part in of_taken])
        of_inputs = None
        if ctx.needs_input_grad[0]:
            of_inputs = torch.bmm(of_taken[0], weight[0].mT)
            for k in (1, 2):
                of_inputs.baddbmm_(of_taken[k], weight[k].mT)
            of_inputs = of_inputs.view_as(inputs)
        of_gate_bias = of_taken[2].sum(1, keepdim=True)
        return of_inputs, of_weight, of_gate_bias, before.mT @ of_taken[2], of_bias.sum(1, keepdim=True), None


# ---------------------------------------------------------------------------------------------------- dependent gates
def select(
    gate: Gate, cell: RCNNCell, states: Tensor, draw: Draw, look_ahead: bool = False
) -> tuple[Tensor, GateDistribution, Tensor | None]:
    """`selector.select_in_order`: z [B, T], the gates, and the logarithm of the chance of a switch or None."""
    states = states.transpose(0, 1)  # [T, B, S]
    weight, bias = gate.linear()
    of_states, of_memory = weight.split((states.shape[-1], cell.hidden_size), 1)
    asked = F.linear(states, of_states, bias)  # [T, B, G]: of the gates, all that does not depend on the memory
    of_states, of_z = cell.inputs.weight.split((states.shape[-1], 1), 1)
    projected = F.linear(states, of_states, cell.input_bias)  # [T, B, 3H]: of the cell, all but z
    pathwise = draw is sample and gate.has_rsample
    noise: Any = log_uniform(asked.shape[:2], asked) if pathwise else None

    def decide(raw: Tensor, t: int) -> Tensor:
        return gate.of(raw).rsample_at(noise[t]) if pathwise else draw(gate.of(raw))

    def slopes(raw: Tensor) -> Tensor | None:
        if not pathwise:
            return None
        with torch.enable_grad():
            raw = raw.detach().requires_grad_()
            return torch.autograd.grad(gate.of(raw).rsample_at(noise).sum(), raw)[0]

    recurrent, bias, of_z = cell.recurrent.weight, cell.bias, of_z.squeeze(1)
    *memory, z = MemoryScan.apply(asked, projected, of_memory, recurrent, bias, of_z, decide, slopes)
    raw = asked + F.linear(memory[0], of_memory)  # [T, B, G]: the loop's, all at once
    gates, switches = gate.of(raw.transpose(0, 1)), None
    if pathwise:
        drawn = gates.rsample_at(noise.T)
        z = drawn.T + (z - drawn.T).detach()  # the loop's value to the last digit, with its gradient
        if look_ahead:
            before = [part[:-1] for part in memory]

            def after(value: Tensor) -> GateDistribution:
                hidden, _, _ = cell(projected[:-1] + value.unsqueeze(-1) * of_z, before)
                return gate.of(asked[1:] + F.linear(hidden, of_memory))

            switches = log_switches(gate.of(raw[:-1]), noise[:-1], after).T
    return z.T, gates, switches


class MemoryScan(torch.autograd.Function):
    """h, c1, c2, z = MemoryScan.apply(asked, projected, asks, recurrent, bias, of_z, decide, slopes)

    An RCNN that reads its own decisions: z_t depends on the state before step t, the state after it on z_t.

        raw_t = asked_t + asks h_{t-1},   z_t = decide(raw_t, t),   state_t = cell(projected_t + of_z z_t, state_{t-1})

    asked [T, B, G], projected [T, B, 3H] with b_g in its last third, asks [G, H], recurrent [H, H], bias [H], of_z [3H]
    -> the state *before* each step, three tensors [T, B, H], and z [T, B]. The gradient of the states takes the way
    through all z; z itself comes back without one, as raw is quickly made of h, for all steps at once.

    decide(raw [B, G], t) -> z [B]; slopes(raw [T, B, G]) -> dz / draw [T, B, G], or None where draws have none.
    """

    @staticmethod
    def forward(ctx, asked, projected, asks, recurrent, bias, of_z, decide, slopes):
        size = len(bias)
        joint = torch.cat([recurrent, asks]).T  # one product a step
        state = (torch.zeros_like(projected[0, :, :size]),) * 3
        states, gates, draws = [state], [], []
        for t, (inputs, ask) in enumerate(zip(projected.unbind(0), asked.unbind(0), strict=True)):
            of_gate, of_raw = (states[t][0] @ joint).split((size, len(asks)), 1)
            draws.append(decide(ask + of_raw, t))
            one, two, gate = torch.addcmul(inputs, draws[t].unsqueeze(1), of_z).chunk(3, 1)
            gates.append((gate + of_gate).sigmoid_())
            _, first, second = states[t]
            second = torch.lerp(first + two, second, gates[t])
            states.append((torch.tanh(second + bias), torch.lerp(one, first, gates[t]), second))
        z = torch.stack(draws)
        hidden, first, second = (torch.stack(parts) for parts in zip(*states, strict=True))  # [T + 1, B, H]
        ctx.slopes = slopes
        ctx.save_for_backward(asked, asks, recurrent, of_z, hidden, first, second, torch.stack(gates), z)
        ctx.mark_non_differentiable(z)
        return hidden[:-1], first[:-1], second[:-1], z

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, of_hidden, of_first, of_second, _):
        asked, asks, recurrent, of_z, hidden, first, second, gates, z = ctx.saved_tensors
        size, steps = recurrent.shape[0], range(len(gates))
        through_first, through_second = ((gates * (c[:-1] - c[1:])).unbind(0) for c in (first, second))  # as in Scan
        curve, gates = (1 - hidden[1:].square()).unbind(0), gates.unbind(0)
        raw = asked + hidden[:-1] @ asks.T
        of_raw = ctx.slopes(raw)  # dz / draw; becomes the gradient of raw
        joint = recurrent if of_raw is None else torch.cat([recurrent, asks])
        h = c1 = c2 = torch.zeros_like(hidden[0])
        inputs_of, asked_of, bias_of = ([torch.empty(0)] * len(steps) for _ in range(3))  # of each step
        for t in reversed(steps):
            bias_of[t] = h * curve[t]
            c2 = c2 + bias_of[t]
            of_gate = torch.addcmul(c2 * through_second[t], c1, through_first[t])
            kept1, kept2 = c1 * gates[t], c2 * gates[t]
            of_two = c2 - kept2
            inputs_of[t] = torch.cat([c1 - kept1, of_two, of_gate], 1)  # [B, 3H]
            if of_raw is not None:
                asked_of[t] = (inputs_of[t] @ of_z).unsqueeze(1) * of_raw[t]
                of_gate = torch.cat([of_gate, asked_of[t]], 1)
            h = torch.addmm(of_hidden[t], of_gate, joint)
            c1, c2 = of_first[t] + kept1 + of_two, of_second[t] + kept2
        of_inputs, of_bias = torch.stack(inputs_of), torch.stack(bias_of).sum((0, 1))
        before = hidden[:-1].flatten(0, 1)
        of_recurrent = of_inputs[..., 2 * size :].flatten(0, 1).T @ before
        of_weight_of_z = of_inputs.flatten(0, 1).T @ z.flatten()
        if of_raw is None:
            return None, of_inputs, None, of_recurrent, of_bias, of_weight_of_z, None, None
        of_asked = torch.stack(asked_of)
        return of_asked, of_inputs, of_asked.flatten(0, 1).T @ before, of_recurrent, of_bias, of_weight_of_z, None, None
