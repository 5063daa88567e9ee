// A table of events; each row opens to show all data of the event, and explains its step.
import { useState } from "preact/hooks";
import type { Event, Job } from "../../api/types.ts";
import { Badge } from "../../components/badge.tsx";
import { dateTime, integer } from "../../display/format.ts";
import { eventText, marksStep } from "../../display/events.ts";
import type { Answer } from "../../display/explanations.ts";
import { ExplanationAnswer } from "./explanation/answer.tsx";
import { OverflowFacts } from "./explanation/overflow-facts.tsx";
import { StepExplanation } from "./explanation/step-explanation.tsx";

export function EventsTable({ job, events, isOpen = false }: { job: Job; events: readonly Event[]; isOpen?: boolean }) {
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
          {events.map((event) => <EventRow key={event.seq} job={job} event={event} isOpen={isOpen} />)}
        </tbody>
      </table>
    </div>
  );
}

function EventRow({ job, event, isOpen }: { job: Job; event: Event; isOpen: boolean }) {
  // The full explanation of a step says more than its event, whose facts are folded then.
  const [isExplained, setExplained] = useState(false);
  return (
    <tr role="row">
      <td role="cell"><Badge state={event.type} /></td>
      <td role="cell" class="number" data-name="Step">{event.step === null ? "" : integer(event.step)}</td>
      <td role="cell" class="wide">
        {Object.keys(event.data).length === 0 ? eventText(event) : (
          <details open={isOpen && !isExplained}>
            <summary>{eventText(event)}</summary>
            <EventData event={event} />
          </details>
        )}
        {event.step !== null && marksStep(event) && <StepExplanation job={job} step={event.step} onOpen={() => setExplained(true)} />}
      </td>
      <td role="cell" class="when" data-name="Time">{dateTime(event.created_at)}</td>
    </tr>
  );
}

function EventData({ event }: { event: Event }) {
  const json = <pre class="data">{JSON.stringify(event.data, null, 1)}</pre>;
  if (event.type !== "overflow" && event.type !== "explanation") return json;
  return (
    <>
      {event.type === "overflow" ? <OverflowFacts data={event.data as never} /> : <ExplanationAnswer answer={event.data as unknown as Answer} />}
      <details>
        <summary>All data as JSON</summary>
        {json}
      </details>
    </>
  );
}
