// The page of workers: their hardware, slots and jobs.
import { routeHref, type Route } from "../router.ts";
import { usePoll } from "../api/use-poll.ts";
import { sendJson } from "../api/request.ts";
import type { Worker, WorkerList } from "../api/types.ts";
import { runAndNotify } from "../notifications.ts";
import { Badge } from "../components/badge.tsx";
import { ConfirmButton } from "../components/buttons.tsx";
import { useNow } from "../hooks.ts";
import { EmptyState, LoadState } from "../components/load-state.tsx";
import { useIsAdmin } from "../session.ts";
import { age, dateTime } from "../display/format.ts";
import { hardwarePairs } from "../display/hardware.ts";

export function WorkersPage(_: { route: Route }) {
  const workers = usePoll<WorkerList>("/workers", 3000);
  return (
    <>
      <h1>Workers</h1>
      <LoadState what="workers" of={workers}>
        {({ items }) => <WorkerCards workers={items} onDone={workers.refresh} />}
      </LoadState>
    </>
  );
}

function WorkerCards({ workers, onDone }: { workers: readonly Worker[]; onDone: () => void }) {
  const now = useNow(1000);
  if (workers.length === 0) {
    return <EmptyState title="No workers">Queued jobs wait for a worker. Start one with <code>ampserver worker</code>; <code>ampserver up</code> includes one.</EmptyState>;
  }
  const onlineWorkers = workers.filter((worker) => worker.state === "online");
  const offlineWorkers = workers.filter((worker) => worker.state !== "online");
  return (
    <>
      <div class="workers">
        {onlineWorkers.map((worker) => <Card key={worker.id} worker={worker} now={now} onDone={onDone} />)}
      </div>
      {onlineWorkers.length === 0 && <p class="callout warning">No worker is online. Queued jobs wait until one connects.</p>}
      {offlineWorkers.length > 0 && (
        <details>
          <summary>{offlineWorkers.length} offline</summary>
          <div class="workers">
            {offlineWorkers.map((worker) => <Card key={worker.id} worker={worker} now={now} onDone={onDone} />)}
          </div>
        </details>
      )}
    </>
  );
}

function Card({ worker, now, onDone }: { worker: Worker; now: number; onDone: () => void }) {
  return (
    <section class="card stack" aria-label={`Worker ${worker.id}`}>
      <div class="row spread">
        <h2 class="break">{worker.hostname}</h2>
        <span class="row">
          {worker.draining && worker.state === "online" && <Badge state="draining" />}
          <Badge state={worker.state} />
        </span>
      </div>
      <dl class="pairs">
        <Pair name="Id"><code>{worker.id}</code></Pair>
        <Pair name="Slots">{worker.jobs.length} of {worker.slots} in use</Pair>
        <Pair name="Jobs"><JobLinks ids={worker.jobs} /></Pair>
        <Pair name="Queues">{worker.queues.join(", ") || "none"}</Pair>
        {hardwarePairs(worker.hardware).map(([name, value]) => <Pair key={name} name={name}>{value}</Pair>)}
        <Pair name="Last seen"><span title={dateTime(worker.last_seen_at)}>{age(worker.last_seen_at, now)} ago</span></Pair>
        <Pair name="Started">{dateTime(worker.started_at)}</Pair>
        <Pair name="Version">{worker.version}</Pair>
      </dl>
      <Drain worker={worker} onDone={onDone} />
    </section>
  );
}

function Drain({ worker, onDone }: { worker: Worker; onDone: () => void }) {
  const isAdmin = useIsAdmin();
  if (!isAdmin || worker.state !== "online" || worker.draining) return null;
  const drain = async () => {
    await runAndNotify(`${worker.hostname} is draining.`, () => sendJson("POST", `/workers/${encodeURIComponent(worker.id)}/drain`));
    onDone();
  };
  return (
    <div>
      <ConfirmButton label="Drain" ariaLabel={`Drain ${worker.id}`} question={`Drain ${worker.hostname}?`} onConfirm={() => void drain()}>
        The worker accepts no new jobs, saves a checkpoint of each running job, returns the jobs to their
        queue and stops. Another worker that serves the queue continues them.
      </ConfirmButton>
    </div>
  );
}

function JobLinks({ ids }: { ids: readonly string[] }) {
  if (ids.length === 0) return <>none</>;
  return <>{ids.map((id, index) => <span key={id}>{index > 0 && ", "}<a href={routeHref(["jobs", id])}>{id}</a></span>)}</>;
}

function Pair({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return <><dt>{name}</dt><dd>{children}</dd></>;
}
