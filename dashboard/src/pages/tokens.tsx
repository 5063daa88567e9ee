// The page of tokens, for admins of all projects or of their own, and for people who have signed in
// with the provider: list, create, rotate, revoke. For admins also the people.
import { useState } from "preact/hooks";
import { type Route } from "../router.ts";
import { usePoll } from "../api/use-poll.ts";
import { sendJson } from "../api/request.ts";
import type { CreatedToken, Token, TokenList } from "../api/types.ts";
import { runAndNotify, notify } from "../notifications.ts";
import { toApiError } from "../api/connection.ts";
import { Badge } from "../components/badge.tsx";
import { ConfirmButton, CopyButton } from "../components/buttons.tsx";
import { EmptyState, LoadState } from "../components/load-state.tsx";
import { useObservable, useOneAtATime } from "../hooks.ts";
import { session, useCreatesTokens, useIsAdmin, useManagesProjects } from "../session.ts";
import { People } from "./people.tsx";
import { dateTime } from "../display/format.ts";

const ROLES = ["viewer", "member", "admin"];
const GRACE_S = 3600;
const DAY_MS = 86_400_000;
const HEADINGS = ["Name", "State", "Role and scopes", "Project", "Created", "Created by", "Belongs to", "Expires"];

export function TokensPage(_: { route: Route }) {
  if (!useCreatesTokens()) {
    return <EmptyState title="Admin role required">Sign in with the token of an admin, or of an admin of a project, to create and revoke tokens.</EmptyState>;
  }
  return <TokenAdmin />;
}

function TokenAdmin() {
  const tokens = usePoll<TokenList>("/tokens", 30_000);
  const [made, setMade] = useState<CreatedToken | null>(null);
  const isAdmin = useIsAdmin();
  return (
    <>
      <h1>Tokens</h1>
      <NewToken onMade={(token) => { setMade(token); tokens.refresh(); }} />
      {made && <Secret token={made} onClose={() => setMade(null)} />}
      <LoadState what="tokens" of={tokens}>
        {({ items }) => <TokenTable tokens={items} onRotated={setMade} onDone={tokens.refresh} />}
      </LoadState>
      {isAdmin && <People />}
    </>
  );
}

function NewToken({ onMade }: { onMade: (token: CreatedToken) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState("member");
  const isAdmin = useIsAdmin();
  const current = useObservable(session);
  const managesProjects = useManagesProjects();
  const grants = current?.person?.grants ?? [];
  const [project, setProject] = useState(isAdmin ? "default" : (current?.project ?? "default"));
  const grant = grants.find((grant) => grant.project === project) ?? current;
  const roles = isAdmin ? ROLES : ROLES.slice(0, grant?.role === "viewer" ? 1 : 2);
  const [isPersonal, setPersonal] = useState(true);
  const [isProjectAdmin, setProjectAdmin] = useState(false);
  const [mayRunCode, setMayRunCode] = useState(false);
  const [days, setDays] = useState("");
  const [create, isCreating] = useOneAtATime(async () => {
    const expires_at = days === "" ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString();
    try {
      const scopes = [...(mayRunCode ? ["jobs:run-code"] : []), ...(isProjectAdmin && role === "member" ? ["project:admin"] : [])];
      onMade(await sendJson<CreatedToken>("POST", "/tokens", {
        name, role: roles.includes(role) ? role : "viewer", scopes, project, expires_at, ...(current?.person && { personal: isPersonal }),
      }));
      setName((now) => (now === name ? "" : now)); // the next name may be typed already
    } catch (error) {
      notify("failed", toApiError(error).message);
    }
  });
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    create();
  };
  return (
    <form class="card filters" aria-label="Create token" onSubmit={submit}>
      <label class="field grow"><span>Name (person or program)</span>
        <input required maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label class="field"><span>Role</span>
        <select value={roles.includes(role) ? role : "viewer"} onChange={(event) => setRole(event.currentTarget.value)}>
          {roles.map((name) => <option key={name}>{name}</option>)}
        </select>
      </label>
      <label class="field"><span>May run custom code</span>
        <input type="checkbox" checked={mayRunCode} onChange={(event) => setMayRunCode(event.currentTarget.checked)} />
      </label>
      <label class="field"><span>Administers its project</span>
        <input type="checkbox" disabled={role !== "member"} checked={isProjectAdmin} onChange={(event) => setProjectAdmin(event.currentTarget.checked)} />
      </label>
      <label class="field"><span>Project</span>
        {!isAdmin && grants.length > 1
          ? (
            <select value={project} onChange={(event) => setProject(event.currentTarget.value)}>
              {grants.map((grant) => <option key={grant.project}>{grant.project}</option>)}
            </select>
          )
          : <input required disabled={!isAdmin} maxLength={64} value={project} onInput={(event) => setProject(event.currentTarget.value)} />}
      </label>
      <label class="field"><span>Expires after (days)</span>
        <input type="number" min={1} max={36500} placeholder="never" value={days} onInput={(event) => setDays(event.currentTarget.value)} />
      </label>
      {current?.person && managesProjects && (
        <label class="field"><span>Belongs to me</span>
          <input type="checkbox" checked={isPersonal} onChange={(event) => setPersonal(event.currentTarget.checked)} />
        </label>
      )}
      <button type="submit" class="button primary" disabled={isCreating}>Create token</button>
    </form>
  );
}

/** The secret of the new token. It is shown once and stored nowhere. */
function Secret({ token, onClose }: { token: CreatedToken; onClose: () => void }) {
  return (
    <section class="card stack" aria-label="New token">
      <h2>Token for {token.name}</h2>
      <p>This token is shown only once. Copy it now and pass it on over a private channel.</p>
      <code class="secret">{token.secret}</code>
      <div class="row">
        <CopyButton label="Copy token" text={token.secret} />
        <button type="button" class="button small" onClick={onClose}>Done</button>
      </div>
    </section>
  );
}

interface TableProps {
  tokens: readonly Token[];
  onRotated: (token: CreatedToken) => void;
  onDone: () => void;
}

function TokenTable({ tokens, onRotated, onDone }: TableProps) {
  const rotate = async (token: Token) => {
    const work = async () => onRotated(await sendJson<CreatedToken>("POST", `/tokens/${token.id}/rotate`, { grace_s: GRACE_S }));
    await runAndNotify(`The token of ${token.name} has another secret.`, work);
  };
  const revoke = async (token: Token) => {
    await runAndNotify(`The token of ${token.name} was revoked.`, () => sendJson("DELETE", `/tokens/${token.id}`));
    onDone();
  };
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="All tokens">
      <table class="table" aria-label="Tokens">
        <thead><tr>{HEADINGS.map((heading) => <th key={heading} scope="col">{heading}</th>)}<th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>
          {tokens.map((token) => (
            <tr key={token.id}>
              <td class="break">{token.name}</td>
              <td><Badge state={stateOf(token)} /></td>
              <td>{[token.role, ...(token.scopes ?? [])].join(", ")}</td>
              <td>{token.project}</td>
              <td>{dateTime(token.created_at)}</td>
              <td>{token.created_by}</td>
              <td>{token.owner ?? "nobody"}</td>
              <td>{token.expires_at ? dateTime(token.expires_at) : "never"}</td>
              <td class="actions">
                {stateOf(token) === "valid" && (
                  <ConfirmButton label="Rotate" ariaLabel={`Rotate ${token.name}`} question={`Give the token of ${token.name} another secret?`} onConfirm={() => void rotate(token)}>
                    The secret that it has now is valid for an hour more, and so are browsers that are signed in with it.
                  </ConfirmButton>
                )}
                {stateOf(token) === "valid" && (
                  <ConfirmButton label="Revoke" ariaLabel={`Revoke ${token.name}`} danger question={`Revoke the token of ${token.name}?`} onConfirm={() => void revoke(token)}>
                    Every browser and program that uses this token loses access immediately. This cannot be undone.
                  </ConfirmButton>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function stateOf(token: Token): string {
  if (token.revoked_at !== null) return "revoked";
  return token.expires_at !== null && Date.parse(token.expires_at) < Date.now() ? "expired" : "valid";
}
