import asyncio
from .harness import *
from .test_continue import asking_crew, answer_all, talk, SENDERS

async def test_x(crews: Site) -> None:
    run = await crews.start(asking_crew(crews))
    acc = []
    await asyncio.wait_for(asyncio.gather(*[answer_all(run, s, acc) for s in range(3)], *(talk(run, s) for s in range(SENDERS))), 80)
    await run.result(LIMIT)
    stored = dict(await crews.journal(run))
    ids = [w.run_id async for w in crews.temporal.list_workflows(f"WorkflowId='{run.id}'")]
    for rid in ids:
        h = crews.temporal.get_workflow_handle(run.id, run_id=rid)
        page = await h.query("journal", {"after": 0, "limit": 1000})
        d = [(i["position"], i["entry"]["kind"], stored[i["position"]].at - i["entry"].get("at", 0)) for i in page["entries"] if _plain(stored[i["position"]]) != i["entry"]]
        hist = await h.fetch_history()
        print("\n== exec", rid[:8], len(page["entries"]), "diff", d[:10])
        if d:
            at = {i["position"]: i["entry"].get("at") for i in page["entries"]}
            for p, k, x in d[:3]: print(p, k, "stored", stored[p].at % 1000000, "replayed", at[p] % 1000000, _plain(stored[p]) | {"at":0} == next(i["entry"] for i in page["entries"] if i["position"]==p) | {"at":0})
            print([(e.event_id, e.event_type, e.event_time.ToMilliseconds() % 1000000) for e in hist.events if any(abs(e.event_time.ToMilliseconds() - stored[p].at) < 80 for p, _, _ in d[:3])])
    crews.runs.clear()
from .harness import _plain
