// What the job's processes print; it follows the end until one scrolls away from it.
import { useEffect, useRef, useState } from "preact/hooks";
import { useTail } from "../../api/tail.ts";
import type { LogEntry } from "../../api/types.ts";
import { Empty, Failure, Loading } from "../../parts/standing.tsx";
import { hasEnded } from "../../words/jobs.ts";
import type { TabProps } from "./page.tsx";

const PAGE = 500;
const NEAR_PX = 30;

export function Log({ job, everyMs }: TabProps) {
  const log = useTail<LogEntry>(`/jobs/${job.id}/logs`, "", PAGE, everyMs);
  const [follows, setFollows] = useState(true);
  const box = useRef<HTMLPreElement>(null);
  useEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [follows, log.items]);
  const look = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    setFollows(scrollHeight - scrollTop - clientHeight < NEAR_PX);
  };
  if (!log.ready) return log.error ? <Failure what="log" error={log.error} /> : <Loading what="the log" />;
  if (log.items.length === 0) {
    return <Empty title="Nothing was printed">{hasEnded(job.state) ? "The ledger tells what happened." : "It appears here as it comes."}</Empty>;
  }
  return (
    <div class="stack">
      <div class="row spread">
        <label class="field check">
          <input type="checkbox" checked={follows} onChange={(event) => setFollows(event.currentTarget.checked)} />
          <span>Follow</span>
        </label>
        {log.hasOlder && <button type="button" class="button" onClick={() => void log.older()}>Earlier output</button>}
      </div>
      <pre ref={box} class="log" tabIndex={0} role="log" aria-label="Output of the job" aria-live="off" onScroll={look}>
        {log.items.map((piece) => (
          <span key={piece.seq} class={piece.stream}>{piece.text}</span>
        ))}
      </pre>
    </div>
  );
}
