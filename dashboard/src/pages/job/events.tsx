// The tab with the event log, newest first, updated live.
import { routeHref, go, queryString } from "../../router.ts";
import { useTail } from "../../api/use-tail.ts";
import type { Event } from "../../api/types.ts";
import { EmptyState, LoadError, LoadingState } from "../../components/load-state.tsx";
import { EVENT_TYPES } from "../../display/events.ts";
import { EventsTable } from "./events-table.tsx";
import type { TabProps } from "./tab-props.ts";

const PAGE = 100;

export function EventsTab({ job, route, intervalMs }: TabProps) {
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
      <Events key={type} {...{ job, type, intervalMs }} />
    </div>
  );
}

function Events({ job, type, intervalMs }: Pick<TabProps, "job" | "intervalMs"> & { type: string }) {
  const entries = useTail<Event>(`/jobs/${job.id}/events`, queryString({ type }), PAGE, intervalMs);
  return (
    <>
      {entries.error && !entries.ready ? <LoadError what="events" error={entries.error} /> : null}
      {!entries.ready && !entries.error && <LoadingState what="events" />}
      {entries.ready && entries.items.length === 0 && <EmptyState title="No events">{type ? "There are no events of this type." : "Events appear when the job starts."}</EmptyState>}
      {entries.items.length > 0 && <EventsTable job={job} events={[...entries.items].reverse()} />}
      {entries.hasOlder && <button type="button" class="button" onClick={() => void entries.loadOlder()}>Load earlier events</button>}
    </>
  );
}
