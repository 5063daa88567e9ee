// Who trains here, and on what.
import { fragmentOf, type Place } from "../address.ts";
import { usePoll } from "../api/poll.ts";
import { send } from "../api/request.ts";
import type { Worker, WorkerList } from "../api/types.ts";
import { attempt } from "../notices.ts";
import { Badge } from "../parts/badge.tsx";
import { Confirm } from "../parts/confirm.tsx";
import { useNow } from "../parts/now.ts";
import { Empty, Standing } from "../parts/standing.tsx";
import { useIsAdmin } from "../session.ts";
import { age, moment } from "../words/format.ts";
import { hardwareOf } from "../words/hardware.ts";

export function WorkersPage(_: { place: Place }) {
  const workers = usePoll<WorkerList>("/workers", 3000);
  return (
    <>
      <h1>Workers</h1>
      <Standing what="workers" of={workers}>
        {({ items }) => <Shown workers={items} onDone={workers.refresh} />}
      </Standing>
    </>
  );
}

function Shown({ workers, onDone }: { workers: readonly Worker[]; onDone: () => void }) {
  const now = useNow(1000);
  if (workers.length === 0) {
    return <Empty title="No workers">Jobs wait until one is there: <code>ampserver worker</code> starts one, and <code>ampserver up</code> brings its own.</Empty>;
  }
  const here = workers.filter((worker) => worker.state === "online");
  const gone = workers.filter((worker) => worker.state !== "online");
  return (
    <>
      <div class="workers">
        {here.map((worker) => <Card key={worker.id} worker={worker} now={now} onDone={onDone} />)}
      </div>
      {here.length === 0 && <p class="callout warning">No worker is online: queued jobs wait until one is.</p>}
      {gone.length > 0 && (
        <details>
          <summary>{gone.length} that {gone.length === 1 ? "is" : "are"} gone</summary>
          <div class="workers">
            {gone.map((worker) => <Card key={worker.id} worker={worker} now={now} onDone={onDone} />)}
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
        {hardwareOf(worker.hardware).map(([name, value]) => <Pair key={name} name={name}>{value}</Pair>)}
        <Pair name="Last seen"><span title={moment(worker.last_seen_at)}>{age(worker.last_seen_at, now)} ago</span></Pair>
        <Pair name="Since">{moment(worker.started_at)}</Pair>
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
    await attempt(`${worker.hostname} is draining.`, () => send("POST", `/workers/${encodeURIComponent(worker.id)}/drain`));
    onDone();
  };
  return (
    <div>
      <Confirm label="Drain" ariaLabel={`Drain ${worker.id}`} question={`Drain ${worker.hostname}?`} onYes={() => void drain()}>
        It takes no more jobs, gives back those that it has behind a checkpoint, and ends. They go on
        wherever another worker serves their queue.
      </Confirm>
    </div>
  );
}

function JobLinks({ ids }: { ids: readonly string[] }) {
  if (ids.length === 0) return <>none</>;
  return <>{ids.map((id, index) => <span key={id}>{index > 0 && ", "}<a href={fragmentOf(["jobs", id])}>{id}</a></span>)}</>;
}

function Pair({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return <><dt>{name}</dt><dd>{children}</dd></>;
}
