import torch
from torch import nn

torch.manual_seed(0)


class Stream:
    def __init__(self):
        self.lstm = nn.LSTMCell(3, 5)

    def run(self, batches):
        h, c = torch.zeros(4, 5), torch.zeros(4, 5)
        for x in batches:
            h, c = self.lstm(x, (h, c))  # <-- created
            yield x.sum(1), h.mean(1) + c.mean(1)


def train(stream, opt):
    for target, guess in stream.run(torch.randn(4, 4, 3)):
        loss = (guess - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()  # <-- freed  # <-- fails
        opt.step()


stream = Stream()
train(stream, torch.optim.SGD(stream.lstm.parameters(), lr=0.1))
