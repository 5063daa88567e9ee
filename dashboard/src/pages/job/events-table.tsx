// A table of events; each row opens to show all data of the event.
import type { Event } from "../../api/types.ts";
import { Badge } from "../../components/badge.tsx";
import { dateTime, integer } from "../../display/format.ts";
import { eventText } from "../../display/events.ts";

export function EventsTable({ events, isOpen = false }: { events: readonly Event[]; isOpen?: boolean }) {
  return (
    <div class="scroll">
      <table class="table cards events" role="table" aria-label="Events">
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col">Type</th>
            <th role="columnheader" scope="col" class="number">Step</th>
            <th role="columnheader" scope="col">Description</th>
            <th role="columnheader" scope="col">Time</th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          {events.map((event) => <EventRow key={event.seq} event={event} isOpen={isOpen} />)}
        </tbody>
      </table>
    </div>
  );
}

function EventRow({ event, isOpen }: { event: Event; isOpen: boolean }) {
  return (
    <tr role="row">
      <td role="cell"><Badge state={event.type} /></td>
      <td role="cell" class="number" data-name="Step">{event.step === null ? "" : integer(event.step)}</td>
      <td role="cell" class="wide">
        {Object.keys(event.data).length === 0 ? eventText(event) : (
          <details open={isOpen}>
            <summary>{eventText(event)}</summary>
            <pre class="data">{JSON.stringify(event.data, null, 1)}</pre>
          </details>
        )}
      </td>
      <td role="cell" class="when" data-name="Time">{dateTime(event.created_at)}</td>
    </tr>
  );
}
