"""Checks of what is installed. Pure."""

from __future__ import annotations

from collections.abc import Callable

from hicache_nsa.doctor.facts import Facts
from hicache_nsa.doctor.finding import Finding, fail, ok, warn
from hicache_nsa.doctor.read_software import satisfies

REBUILD = "put nvcc on PATH and run pip install . -C cmake.define.HICACHE_CUDA=ON"
EXTRAS = {
    "rich": "tables and progress of hicache demo, bench and simulate",
    "tokenizers": "hicache demo --tokenizer",
    "transformers": "PrefixCache (docs/integrations/transformers.md)",
    "vllm": "HiCacheOffloadingSpec (docs/integrations/vllm.md)",
    "sglang": "HiCacheLinker (docs/integrations/sglang.md)",
    "matplotlib": "hicache simulate --plot",
    "prometheus-client": "the collector of metrics (hicache_nsa.metrics)",
    "pyzmq": "publishing KV events",
    "msgspec": "publishing KV events",
}


def check_package(facts: Facts) -> Finding:
    """The package and its C++ core."""
    software = facts.software
    build = software.build
    kind = "with CUDA" if build["cuda"] else "without CUDA"
    debug = ", debug" if build["debug"] else ""
    found = f"hicache-nsa {software.version or 'not installed'}, core {build['version']} {kind}"
    found += f"{debug} (compiler {build['compiler']})"
    if facts.on_gpu and not build["cuda"]:
        return fail(found, f"device={facts.device!r} needs the CUDA backend.", REBUILD)
    if software.version is not None and software.version != build["version"]:
        return warn(
            found,
            "The core is of another version than the package: what they say to each other may "
            "differ.",
            "pip install --force-reinstall . in the project's folder",
        )
    if facts.hardware.any_gpu and not build["cuda"]:
        return warn(found, "There is a GPU, and this build cannot use it.", REBUILD)
    if build["debug"]:
        return warn(
            found,
            "Guard zones around host memory, and no optimisation: for tests, not for service.",
            "pip install . without -C cmake.build-type=Debug",
        )
    return ok(found, "The package is whole.")


def check_python(facts: Facts) -> Finding:
    """The interpreter."""
    return ok(facts.software.python, "It runs.")


def check_numpy(facts: Facts) -> Finding:
    """The one array library that is always needed."""
    found = facts.software.installed["numpy"]
    return _of_package(facts, "numpy", ok(f"{found}", "Page ids and views are its arrays."))


def check_torch(facts: Facts) -> Finding:
    """torch, and whether its CUDA is one that the driver runs."""
    software = facts.software
    version = software.installed["torch"]
    if version is None:
        return ok("not installed", "A cache on an engine's own tensors needs none; the demo does.")
    built = f"CUDA {software.torch_cuda}" if software.torch_cuda else "no CUDA"
    found = f"{version}, {built}"
    good = ok(found, "Loaded only where it is used.")
    outcome = _of_package(facts, "torch", good)
    if outcome is not good or not facts.on_gpu:
        return outcome
    if software.torch_cuda is None:
        return warn(
            found,
            "It sees no GPU: the demo, engines and pools allocated by the cache run on the CPU.",
            "install a torch with CUDA",
        )
    driver = facts.cuda.driver
    if driver and int(software.torch_cuda.split(".")[0]) > driver // 1000:
        return warn(
            found,
            f"The driver runs CUDA up to {cuda_version(driver)}: this torch will not start.",
            f"update the driver to one for CUDA {software.torch_cuda}",
        )
    return good


def extra_check(name: str) -> Callable[[Facts], Finding]:
    """The check of one optional package."""

    def check(facts: Facts) -> Finding:
        version = facts.software.installed[name]
        if version is None:
            return ok("not installed", f"Only for {EXTRAS[name]}.")
        return _of_package(facts, name, ok(version, f"For {EXTRAS[name]}."))

    return check


def cuda_version(number: int) -> str:
    """``13.0`` of 13000."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _of_package(facts: Facts, name: str, good: Finding) -> Finding:
    """``good``, or that its version is none of those that are wanted."""
    version, wanted = facts.software.installed[name], facts.software.wanted.get(name)
    if version is None:
        return fail("not installed", "Nothing runs without it.", f"pip install {name}")
    if wanted is None or satisfies(version, wanted):
        return good
    return warn(
        good.found,
        f"Not one of the versions that it was tested with: {wanted}.",
        f"pip install '{name}{wanted}'",
    )
