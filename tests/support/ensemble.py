"""The posterior of docs/architecture.md, an ensemble of models, as a module of a user's own."""

from documents import blocks, run

(CODE,) = blocks("docs/architecture.md#A posterior")
run(CODE, globals())
