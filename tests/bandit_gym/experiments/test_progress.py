from bandit_gym.experiments.execution import Progress
from bandit_gym.experiments.experiment import Experiment
from bandit_gym.experiments.progress import _live_bar
from bandit_gym.experiments.simulation import Outcome


def test_the_bar_shows_brackets_in_labels_and_messages_as_they_are(capsys):
    (run,) = Experiment(
        environments=["BernoulliBandit-v0"], agents=[{"agent": "random", "label": "[/x]"}]
    ).runs
    failed = Outcome(run, 0, None, {}, "ValueError: [/y] [bold]")
    with _live_bar() as show:
        show(Progress(1, 0, 0, (), None, "1 of 1 agents changed since: [z].py"))
        show(Progress(1, 0, 1, (), failed))
    error = capsys.readouterr().err
    assert "changed since: [z].py" in error
    assert "[/x] failed in BernoulliBandit-v0, block 0: ValueError: [/y] [bold]" in error
