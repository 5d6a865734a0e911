"""The fast form of the backward pass of the mappings that end in a projection. See `fast_rows`.

Each function multiplies gradients [N, T] by the Jacobian of all rows, eq. (A8): subtract the mean over the support,
average over each group, divide by gamma. Rows are read from front to back without branches, so that the compiler makes
vector instructions. Sums are those of `LANES` columns in float64, added at the end.
"""

import numpy as np

from rationale.nn.mappings.fast_rows import LANES, njit, places_above


@njit(cache=True)
def sum_inside(values, inside, lanes, counts):
    """The sum of the values that are inside, and their number. `lanes`, `counts` [LANES]: working memory."""
    lanes[:] = 0.0
    counts[:] = 0
    whole = values.size - values.size % LANES
    for begin in range(0, whole, LANES):
        part, keep = values[begin : begin + LANES], inside[begin : begin + LANES]
        for k in range(LANES):
            lanes[k] += part[k] if keep[k] else 0.0
            counts[k] += keep[k]
    for t in range(whole, values.size):
        lanes[t - whole] += values[t] if inside[t] else 0.0
        counts[t - whole] += inside[t]
    return lanes.sum(), counts.sum()


@njit(cache=True)
def project_back(grads, weights, gamma, grad_scores):
    """The gradient of the scores of sparsemax.

    The mean over the support is written out here and in `project_back_signed`: as a function of its own, this pass and
    the forward pass together took 1.4 to 1.6 times as long.
    """
    size = grads.shape[1]
    lanes, counts, inside = np.empty(LANES), np.empty(LANES, np.int32), np.empty(size, np.bool_)
    for r in range(grads.shape[0]):
        of_row, grad, result = weights[r], grads[r], grad_scores[r]
        for t in range(size):
            inside[t] = of_row[t] > 0
        total, count = sum_inside(grad, inside, lanes, counts)
        mean = total / max(count, 1)
        for t in range(size):
            value = (grad[t] - mean) / gamma
            result[t] = value if inside[t] else 0.0


@njit(cache=True)
def project_back_groups(grads, weights, groups, gamma, grad_scores):
    """The same with groups. Few groups with many members are worth a pass over the row each."""
    size = grads.shape[1]
    lanes, counts, inside = np.empty(LANES), np.empty(LANES, np.int32), np.empty(size, np.bool_)
    sums, sizes, place = np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64)
    levels, nothing = np.empty(size, grads.dtype), np.empty(0, np.bool_)
    zero = np.zeros(1, weights.dtype)[0]
    for r in range(grads.shape[0]):
        grad, of_row, group, result = grads[r], weights[r], groups[r], grad_scores[r]
        number, count = number_of_groups(of_row, group, counts)
        result[:] = 0.0
        if number * size <= 16 * count:
            for own in range(number):
                members(of_row, group, own, inside)
                sums[own], sizes[own] = sum_inside(grad, inside, lanes, counts)
            group_levels(sums, sizes, number, gamma, levels)
            for own in range(number):
                members(of_row, group, own, inside)
                level = levels[own]
                for t in range(size):
                    result[t] = level if inside[t] else result[t]
        else:
            places_above(of_row, nothing, False, zero, place, inside)
            sums[:number] = 0.0
            sizes[:number] = 0
            for t in place[:count]:
                sums[group[t]] += grad[t]
                sizes[group[t]] += 1
            group_levels(sums, sizes, number, gamma, levels)
            for t in place[:count]:
                result[t] = levels[group[t]]


@njit(cache=True)
def number_of_groups(weights, groups, numbers):
    """1 + the largest number of a group of positive weights, and the number of positive weights."""
    numbers[:] = 0
    count, whole = 0, weights.size - weights.size % LANES
    for begin in range(0, whole, LANES):
        part, own = weights[begin : begin + LANES], groups[begin : begin + LANES]
        for k in range(LANES):
            number = own[k] + 1 if part[k] > 0 else 0
            numbers[k] = number if number > numbers[k] else numbers[k]
            count += part[k] > 0
    for t in range(whole, weights.size):
        if weights[t] > 0:
            numbers[0] = max(numbers[0], groups[t] + 1)
            count += 1
    return numbers.max(), count


@njit(cache=True)
def members(weights, groups, number, inside):
    """Whether the weight is positive and belongs to the group of this number, for each place of a row."""
    for t in range(weights.size):
        inside[t] = (weights[t] > 0) & (groups[t] == number)


@njit(cache=True)
def group_levels(sums, sizes, number, gamma, levels):
    """The mean of each group, less the mean of all groups together, divided by gamma."""
    total, count = 0.0, 0
    for own in range(number):
        total += sums[own]
        count += sizes[own]
    mean = total / max(count, 1)
    for own in range(number):
        levels[own] = (sums[own] / max(sizes[own], 1) - mean) / gamma


@njit(cache=True)
def project_back_signed(grads, weights, groups, signs, gamma, grad_scores):
    """The same for the published oscarmax, whose groups have signs and may have members of weight 0."""
    size = grads.shape[1]
    lanes, counts, inside = np.empty(LANES), np.empty(LANES, np.int32), np.empty(size, np.bool_)
    values, sums, sizes = np.empty(size), np.empty(size), np.empty(size)
    for r in range(grads.shape[0]):
        for t in range(size):
            inside[t] = weights[r, t] > 0
        total, count = sum_inside(grads[r], inside, lanes, counts)
        mean = total / max(count, 1)
        for t in range(size):
            values[t] = grads[r, t] - mean if inside[t] else 0.0
        average_signed(values, groups[r], signs[r], sums, sizes)
        for t in range(size):
            grad_scores[r, t] = values[t] / gamma


@njit(cache=True)
def average_signed(values, groups, signs, sums, sizes):
    """values <- the mean of sign times value over each group, times the sign; 0 where there is no group (-1)."""
    sums[:] = 0.0
    sizes[:] = 0.0
    for t in range(values.size):
        if groups[t] >= 0:
            sums[groups[t]] += values[t] * signs[t]
            sizes[groups[t]] += 1
    for t in range(values.size):
        values[t] = sums[groups[t]] / sizes[groups[t]] * signs[t] if groups[t] >= 0 else 0.0
