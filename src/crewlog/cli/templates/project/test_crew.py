"""The whole crew as a test: a real workflow on a throwaway server, with a scripted model."""

from crewlog.testing import CrewlogLocal, scripted


async def test_notes_are_written_and_checked(crewlog_local: CrewlogLocal) -> None:
    run = await crewlog_local.run(
        "crew.yaml", input="v2.1..HEAD", model=scripted("notes.script.yaml")
    )
    assert run.steps == ["collector", "writer", "checker", "writer", "checker"]
    assert run.flags["approved"] is True
    notes = crewlog_local.workspace / run.id / "notes" / "release.md"
    assert "The search is faster" in notes.read_text()


async def test_people_are_asked_when_the_checker_never_approves(
    crewlog_local: CrewlogLocal,
) -> None:
    stubborn = {"agents": {"*": [{"text": "No."}]}}
    run = await crewlog_local.start("crew.yaml", model=scripted(stubborn))
    view = await run.wait_until(lambda view: bool(view.interrupts))
    assert view.status == "waiting"
    await run.answer(view.interrupts[0], "approve")
