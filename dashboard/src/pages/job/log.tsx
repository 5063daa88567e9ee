// The output of the job's processes. It follows the end until the user scrolls up.
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { useTail } from "../../api/use-tail.ts";
import type { LogEntry } from "../../api/types.ts";
import { EmptyState, LoadError, LoadingState } from "../../components/load-state.tsx";
import { hasEnded } from "../../display/jobs.ts";
import { logLines } from "../../display/log-lines.ts";
import type { TabProps } from "./tab-props.ts";

const PAGE = 500;
const NEAR_PX = 30;

export function Log({ job, intervalMs, pulse }: TabProps) {
  const log = useTail<LogEntry>(`/jobs/${job.id}/logs`, "", PAGE, intervalMs, pulse);
  const [isFollowing, setIsFollowing] = useState(true);
  const [showsStartup, setShowsStartup] = useState(false);
  const lines = useMemo(() => logLines(log.items), [log.items]);
  const startup = lines.filter((line) => line.isStartup).length;
  const box = useRef<HTMLPreElement>(null);
  // A layout effect: a later one could scroll down again after the user has scrolled up.
  useLayoutEffect(() => {
    if (isFollowing && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [isFollowing, showsStartup, lines]);
  const onScroll = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current!;
    setIsFollowing(scrollHeight - scrollTop - clientHeight < NEAR_PX);
  };
  if (!log.ready) return log.error ? <LoadError what="log" error={log.error} /> : <LoadingState what="log" />;
  if (lines.length === 0) {
    return <EmptyState title="No output">{hasEnded(job.state) ? "See the Events tab for what happened." : "Output will appear here."}</EmptyState>;
  }
  return (
    <div class="stack">
      <div class="row spread">
        <div class="row">
          <label class="field check">
            <input type="checkbox" checked={isFollowing} onChange={(event) => setIsFollowing(event.currentTarget.checked)} />
            <span>Follow</span>
          </label>
          {startup > 0 && (
            <label class="field check">
              <input type="checkbox" checked={showsStartup} onChange={(event) => setShowsStartup(event.currentTarget.checked)} />
              <span>TensorFlow start-up messages ({startup})</span>
            </label>
          )}
        </div>
        {log.hasOlder && <button type="button" class="button" onClick={() => void log.loadOlder()}>Load earlier output</button>}
      </div>
      {startup === lines.length && !showsStartup && <p class="muted">The job printed nothing else.</p>}
      <pre ref={box} class="log" tabIndex={0} role="log" aria-label="Output of the job" aria-live="off" onScroll={onScroll}>
        {lines.map((line) => (showsStartup || !line.isStartup) && <span key={line.key} class={line.stream}>{line.text}</span>)}
      </pre>
    </div>
  );
}
