"""Dropout whose random numbers are cheap on a CPU."""

from torch import Tensor, nn

from rationale.nn import fast


class Dropout(nn.Dropout):
    """`nn.Dropout`, several times as fast on a CPU, and never in place; see `fast.kept_units`."""

    def __init__(self, p: float = 0.5):
        super().__init__(p)

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training or not 0 < self.p <= 255 / 256 or inputs.device.type != "cpu":
            return super().forward(inputs)
        return inputs * fast.kept_units(inputs, self.p)


class ReLUDropout(Dropout):
    """ReLU, then dropout."""

    def forward(self, inputs: Tensor) -> Tensor:
        return super().forward(inputs.relu())
