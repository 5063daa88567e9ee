// A banner above the page while the server is unreachable.
import { useEffect } from "preact/hooks";
import { retryCount, outage, retryAll } from "../api/connection.ts";
import { useObservable, useNow } from "../hooks.ts";
import { duration } from "../display/format.ts";

export function OutageBanner({ onReconnect }: { onReconnect: (() => Promise<void>) | undefined }) {
  const current = useObservable(outage);
  const times = useObservable(retryCount);
  useEffect(() => {
    if (times > 0) void onReconnect?.();
  }, [times]);
  useEffect(() => {
    // Before the session has loaded nothing else polls.
    if (!current || !onReconnect) return;
    const timer = setInterval(() => void onReconnect(), 3000);
    return () => clearInterval(timer);
  }, [current, onReconnect]);
  if (!current) return null;
  return (
    <div class="outage" role="alert">
      <span>
        <strong>Connection lost.</strong> {current.message} The data shown is <Since at={current.since} /> old.
        Retrying automatically.
      </span>
      <button type="button" class="button" onClick={retryAll}>Retry now</button>
    </div>
  );
}

function Since({ at }: { at: number }) {
  return <span aria-hidden="true">{duration(Math.max(1, Math.round((useNow(1000) - at) / 1000)))}</span>;
}
