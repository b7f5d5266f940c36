import threading, sys, torch
from torch import nn
net = nn.Linear(2, 1)
def work():
    x = torch.randn(3, 2)
    loss = net(x).pow(2).mean()
    loss.backward()
t = threading.Thread(target=work)
t.start(); t.join()
