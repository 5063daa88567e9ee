// A line over the page for as long as the server does not answer.
import { useEffect } from "preact/hooks";
import { again, outage, tryAgain } from "../api/connection.ts";
import { useCell } from "../cell.ts";
import { useNow } from "./now.ts";
import { duration } from "../words/format.ts";

export function OutageBanner({ onBack }: { onBack: (() => Promise<void>) | undefined }) {
  const lost = useCell(outage);
  const times = useCell(again);
  useEffect(() => {
    if (times > 0) void onBack?.();
  }, [times]);
  useEffect(() => {
    // Before anything is shown nothing asks by itself.
    if (!lost || !onBack) return;
    const timer = setInterval(() => void onBack(), 3000);
    return () => clearInterval(timer);
  }, [lost, onBack]);
  if (!lost) return null;
  return (
    <div class="outage" role="alert">
      <span>
        <strong>No connection.</strong> {lost.message} What is shown is as of <Since at={lost.since} /> ago;
        it is asked for again by itself.
      </span>
      <button type="button" class="button" onClick={tryAgain}>Try now</button>
    </div>
  );
}

function Since({ at }: { at: number }) {
  return <span aria-hidden="true">{duration(Math.max(1, Math.round((useNow(1000) - at) / 1000)))}</span>;
}
