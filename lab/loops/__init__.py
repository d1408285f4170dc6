"""The same training written in several ways, to compare their speed.

    ours          the compiled program of `lab.fit`, with its record, snapshots and held-out measurements
    recording     the same without the held-out measurements
    bare          one `lax.scan` over the updates, nothing recorded
    chunked       `bare` in pieces of 16 updates, which report how far they are
    python_loop   one compiled update at a time, its loss read each time
    multisteps    `optax.MultiSteps`, one compiled microbatch at a time
    unrolled      `bare` with the scan over microbatches unrolled
    torch         eager PyTorch, where it is installed

All start from the same parameters, see the same microbatches and end in the same parameters, to float32 rounding.

    compared    which loops there are, and what they can do       timing     a loop's compile and run times
    work        what every loop is to do                          stacking   memory: outputs stacked, or carried
    loop        a compiled loop, its arrays, its memory           debugging  what `jax.disable_jit` shows
    scans, stepwise, eager   the loops                            measurement  all of it, for the page
                                                                  apart      in a process of its own
"""
