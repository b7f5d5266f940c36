import threading, sys, torch
from torch import nn
net = nn.Linear(2, 1)
errors = []
def work():
    x = torch.randn(3, 2)
    loss = net(x).pow(2).mean()  # <-- created
    loss.backward()  # <-- freed
    try:
        loss.backward()  # <-- fails
    except RuntimeError as e:
        errors.append(e)
t = threading.Thread(target=work)
t.start(); t.join()
raise errors[0]
