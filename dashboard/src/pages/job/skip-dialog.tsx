// The overflow events of one marker of skipped steps.
import { useEffect, useRef } from "preact/hooks";
import { queryString } from "../../router.ts";
import { usePoll } from "../../api/use-poll.ts";
import type { EventPage, Job } from "../../api/types.ts";
import { LoadState } from "../../components/load-state.tsx";
import { markerLabel, type SkipMarker, type StepRange } from "../../plots/skip-markers.ts";
import { EventsTable } from "./events-table.tsx";
import { StepExplanation } from "./explanation/step-explanation.tsx";

const ENTRIES = 20;
const SLOW_POLL_MS = 60_000;

interface Props {
  job: Job;
  marker: SkipMarker;
  onShow: (range: StepRange) => void;
  onClose: () => void;
}

export function SkipDialog({ job, marker, onShow, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const query = queryString({ type: "overflow", start: marker.first, end: marker.last + 1, limit: ENTRIES });
  const entries = usePoll<EventPage>(`/jobs/${job.id}/events?${query}`, SLOW_POLL_MS);
  const around: StepRange = [Math.max(0, marker.first - 10), marker.last + 10];
  return (
    <dialog ref={dialog} class="dialog wide-dialog" aria-label={markerLabel(marker)} onClose={onClose}>
      <h2>{markerLabel(marker)}</h2>
      <LoadState what="events" of={entries}>
        {(page) =>
          page.items.length > 0 ? (
            <EventsTable job={job} events={page.items} isOpen={page.items.length === 1} />
          ) : (
            <>
              <p>No event was recorded for {marker.count === 1 ? "this step" : "these steps"}.</p>
              <StepExplanation job={job} step={marker.first} />
            </>
          )
        }
      </LoadState>
      {entries.data?.more && <p class="muted">Only the first {ENTRIES} are shown. Zoom in to see the others.</p>}
      <div class="row end">
        <button type="button" class="button" onClick={() => { dialog.current?.close(); onShow(around); }}>Zoom to step</button>
        <button type="button" class="button primary" onClick={() => dialog.current?.close()}>Close</button>
      </div>
    </dialog>
  );
}
