// The ledger's entries for one mark of skipped steps.
import { useEffect, useRef } from "preact/hooks";
import { queryOf } from "../../address.ts";
import { usePoll } from "../../api/poll.ts";
import type { EventPage, Job } from "../../api/types.ts";
import { Standing } from "../../parts/standing.tsx";
import { wordsOf, type Mark, type Range } from "../../plots/marks.ts";
import { LedgerTable } from "./ledger-table.tsx";

const ENTRIES = 20;
const SELDOM_MS = 60_000;

interface Props {
  job: Job;
  mark: Mark;
  onShow: (range: Range) => void;
  onClose: () => void;
}

export function SkipDialog({ job, mark, onShow, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  const query = queryOf({ type: "overflow", start: mark.first, end: mark.last + 1, limit: ENTRIES });
  const entries = usePoll<EventPage>(`/jobs/${job.id}/events?${query}`, SELDOM_MS);
  const around: Range = [Math.max(0, mark.first - 10), mark.last + 10];
  return (
    <dialog ref={dialog} class="dialog wide-dialog" aria-label={wordsOf(mark)} onClose={onClose}>
      <h2>{wordsOf(mark)}</h2>
      <Standing what="ledger" of={entries}>
        {(page) =>
          page.items.length > 0 ? (
            <LedgerTable events={page.items} isOpen={page.items.length === 1} />
          ) : (
            <p>The ledger has no entry of its own for {mark.count === 1 ? "this step" : "these steps"}.</p>
          )
        }
      </Standing>
      {entries.data?.more && <p class="muted">These are the first {ENTRIES}; zoom in to tell the others apart.</p>}
      <div class="row end">
        <button type="button" class="button" onClick={() => { dialog.current?.close(); onShow(around); }}>Zoom to it</button>
        <button type="button" class="button primary" onClick={() => dialog.current?.close()}>Close</button>
      </div>
    </dialog>
  );
}
