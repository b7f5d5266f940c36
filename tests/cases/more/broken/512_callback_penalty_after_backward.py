"""A trainer with callbacks: one adds a penalty after the main backward."""
import torch
from torch import nn


class Callback:
    def after_loss(self, trainer): ...
    def after_backward(self, trainer): ...


class Confidence(Callback):
    def after_backward(self, trainer):
        (0.1 * trainer.last_output.square().mean()).backward()


class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks = model, callbacks
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def tell(self, event):
        for callback in self.callbacks:
            getattr(callback, event)(self)

    def fit(self, batches):
        for x, y in batches:
            self.opt.zero_grad()
            self.last_output = torch.log_softmax(self.model(x), -1)
            self.loss = nn.functional.nll_loss(self.last_output, y)
            self.tell("after_loss")
            self.loss.backward()
            self.tell("after_backward")
            self.opt.step()


Trainer(nn.Linear(3, 4), [Confidence()]).fit([(torch.randn(5, 3), torch.randint(0, 4, (5,))) for _ in range(2)])
