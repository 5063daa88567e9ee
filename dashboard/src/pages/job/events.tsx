// The tab with the event log, newest first, updated live.
import { useEffect } from "preact/hooks";
import { routeHref, go, queryString } from "../../router.ts";
import { useTail } from "../../api/use-tail.ts";
import type { Event } from "../../api/types.ts";
import { EmptyState, LoadError, LoadingState } from "../../components/load-state.tsx";
import { groupEvents } from "../../display/event-groups.ts";
import { EVENT_TYPES } from "../../display/events.ts";
import { EventsTable } from "./events-table.tsx";
import type { TabProps } from "./tab-props.ts";

const PAGE = 100;
const MIN_ROWS = 20;
const MAX_LOADED = 2000;

export function EventsTab({ job, route, intervalMs, pulse }: TabProps) {
  const type = route.query.get("type") ?? "";
  return (
    <div class="stack">
      <label class="field inline narrow">
        <span>Type</span>
        <select value={type} onChange={(event) => go(routeHref(["jobs", job.id], { tab: "events", type: event.currentTarget.value }), true)}>
          <option value="">all</option>
          {EVENT_TYPES.map((one) => <option key={one} value={one}>{one}</option>)}
        </select>
      </label>
      <Events key={type} {...{ job, type, intervalMs, pulse }} />
    </div>
  );
}

function Events({ job, type, intervalMs, pulse }: Pick<TabProps, "job" | "intervalMs" | "pulse"> & { type: string }) {
  const entries = useTail<Event>(`/jobs/${job.id}/events`, queryString({ type }), PAGE, intervalMs, pulse);
  // One group can fill a page of the log: load more until there are some rows.
  const rows = groupEvents(entries.items).length;
  const needsMore = entries.hasOlder && rows < MIN_ROWS && entries.items.length < MAX_LOADED;
  useEffect(() => {
    if (needsMore) void entries.loadOlder().catch(() => undefined);
  }, [needsMore, entries.items[0]?.seq]);
  return (
    <>
      {entries.error && !entries.ready ? <LoadError what="events" error={entries.error} /> : null}
      {!entries.ready && !entries.error && <LoadingState what="events" />}
      {entries.ready && entries.items.length === 0 && <EmptyState title="No events">{type ? "There are no events of this type." : "Events appear when the job starts."}</EmptyState>}
      {entries.items.length > 0 && <EventsTable job={job} events={entries.items} hasOlder={entries.hasOlder} isLog />}
      {entries.hasOlder && <button type="button" class="button" onClick={() => void entries.loadOlder()}>Load earlier events</button>}
    </>
  );
}
