// What happened to the job beside its steps: the newest first, and whatever comes.
import { fragmentOf, go, queryOf } from "../../address.ts";
import { useTail } from "../../api/tail.ts";
import type { Event } from "../../api/types.ts";
import { Empty, Failure, Loading } from "../../parts/standing.tsx";
import { EVENT_TYPES } from "../../words/events.ts";
import { LedgerTable } from "./ledger-table.tsx";
import type { TabProps } from "./page.tsx";

const PAGE = 100;

export function Ledger({ job, place, everyMs }: TabProps) {
  const type = place.query.get("type") ?? "";
  const entries = useTail<Event>(`/jobs/${job.id}/events`, queryOf({ type }), PAGE, everyMs);
  return (
    <div class="stack">
      <label class="field inline narrow">
        <span>Type</span>
        <select value={type} onChange={(event) => go(fragmentOf(["jobs", job.id], { tab: "ledger", type: event.currentTarget.value }), true)}>
          <option value="">all</option>
          {EVENT_TYPES.map((one) => <option key={one} value={one}>{one}</option>)}
        </select>
      </label>
      {entries.error && !entries.ready ? <Failure what="ledger" error={entries.error} /> : null}
      {!entries.ready && !entries.error && <Loading what="the ledger" />}
      {entries.ready && entries.items.length === 0 && <Empty title="No entries">{type ? "There are none of this type." : "They begin when the job does."}</Empty>}
      {entries.items.length > 0 && <LedgerTable events={[...entries.items].reverse()} />}
      {entries.hasOlder && <button type="button" class="button" onClick={() => void entries.older()}>Earlier entries</button>}
    </div>
  );
}
