// Entries of the ledger; each opens to all that was told.
import type { Event } from "../../api/types.ts";
import { Badge } from "../../parts/badge.tsx";
import { moment, whole } from "../../words/format.ts";
import { sentenceOf } from "../../words/events.ts";

export function LedgerTable({ events, isOpen = false }: { events: readonly Event[]; isOpen?: boolean }) {
  return (
    <div class="scroll">
      <table class="table cards ledger" role="table" aria-label="Ledger">
        <thead role="rowgroup">
          <tr role="row">
            <th role="columnheader" scope="col">Type</th>
            <th role="columnheader" scope="col" class="number">Step</th>
            <th role="columnheader" scope="col">What happened</th>
            <th role="columnheader" scope="col">When</th>
          </tr>
        </thead>
        <tbody role="rowgroup">
          {events.map((event) => <Entry key={event.seq} event={event} isOpen={isOpen} />)}
        </tbody>
      </table>
    </div>
  );
}

function Entry({ event, isOpen }: { event: Event; isOpen: boolean }) {
  return (
    <tr role="row">
      <td role="cell"><Badge state={event.type} /></td>
      <td role="cell" class="number" data-name="Step">{event.step === null ? "" : whole(event.step)}</td>
      <td role="cell" class="wide">
        {Object.keys(event.data).length === 0 ? sentenceOf(event) : (
          <details open={isOpen}>
            <summary>{sentenceOf(event)}</summary>
            <pre class="data">{JSON.stringify(event.data, null, 1)}</pre>
          </details>
        )}
      </td>
      <td role="cell" class="when" data-name="When">{moment(event.created_at)}</td>
    </tr>
  );
}
