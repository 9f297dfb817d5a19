"""What transformers and SGLang import of torchvision: names, no function. For tests of the linker.

torchvision itself is built against one version of torch and brings nothing that these tests run.
"""

__version__ = "0.28.0"

from torchvision import transforms as transforms
