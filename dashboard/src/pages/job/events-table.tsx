// A table of events; each row opens to show all data of the event, and explains its step.
import { useState } from "preact/hooks";
import type { Event, Job } from "../../api/types.ts";
import { Badge } from "../../components/badge.tsx";
import { dateTime, integer } from "../../display/format.ts";
import { eventText, marksStep } from "../../display/events.ts";
import { groupEvents, stepsOf, type EventGroup } from "../../display/event-groups.ts";
import type { Answer } from "../../display/explanations.ts";
import { ExplanationAnswer } from "./explanation/answer.tsx";
import { OverflowFacts } from "./explanation/overflow-facts.tsx";
import { StepExplanation } from "./explanation/step-explanation.tsx";

/** The events; in the log newest first, with near-equal ones in a row as one row, which opens. */
export function EventsTable({ job, events, isOpen = false, isLog = false, hasOlder = false }: {
  job: Job;
  /** In the order of the log. */
  events: readonly Event[];
  isOpen?: boolean;
  isLog?: boolean;
  /** Whether events before these are not loaded: the first group may have more. */
  hasOlder?: boolean;
}) {
  const grouped = isLog ? groupEvents(events) : events.map((event) => ({ events: [event] }));
  const groups = grouped.map((group, index) => ({ group, isPartial: hasOlder && index === 0 }));
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
          {(isLog ? groups.reverse() : groups).map(({ group, isPartial }) =>
            group.events.length === 1
              ? <EventRow key={group.events[0]!.seq} job={job} event={group.events[0]!} isOpen={isOpen} />
              : <GroupRows key={`group of ${group.events.at(-1)!.seq}`} {...{ job, group, isOpen, isPartial, isLog }} />,
          )}
        </tbody>
      </table>
    </div>
  );
}

function GroupRows(props: { job: Job; group: EventGroup; isOpen: boolean; isPartial: boolean; isLog: boolean }) {
  const { group, isPartial } = props;
  const [isExpanded, expand] = useState(false);
  const [first, last] = [group.events[0]!, group.events.at(-1)!];
  const steps = stepsOf(group);
  const events = props.isLog ? [...group.events].reverse() : group.events;
  return (
    <>
      <tr role="row" class="group">
        <td role="cell"><Badge state={first.type} /></td>
        <td role="cell" class="number" data-name="Step">{steps && `${integer(steps[0])} to ${integer(steps[1])}`}</td>
        <td role="cell" class="wide">
          <button type="button" class="button small" aria-expanded={isExpanded} onClick={() => expand(!isExpanded)}>
            {integer(group.events.length)}{isPartial && " or more"} events
          </button>{" "}
          The last: {eventText(last)}
        </td>
        <td role="cell" class="when" data-name="Time">{dateTime(first.created_at)} to {dateTime(last.created_at)}</td>
      </tr>
      {isExpanded && events.map((event) => <EventRow key={event.seq} job={props.job} event={event} isOpen={props.isOpen} />)}
    </>
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
