// Tokens, for admins: list them, make one, revoke one.
import { useEffect, useState } from "preact/hooks";
import { type Place } from "../address.ts";
import { usePoll } from "../api/poll.ts";
import { send } from "../api/request.ts";
import type { MadeToken, Token, TokenList } from "../api/types.ts";
import { attempt, tell } from "../notices.ts";
import { failed } from "../api/connection.ts";
import { Badge } from "../parts/badge.tsx";
import { Confirm } from "../parts/confirm.tsx";
import { Copy } from "../parts/copy.tsx";
import { Empty, Standing } from "../parts/standing.tsx";
import { useIsAdmin } from "../session.ts";
import { moment } from "../words/format.ts";

const ROLES = ["viewer", "member", "admin"];
const DAY_MS = 86_400_000;
const HEADINGS = ["Name", "State", "Role", "Project", "Made", "By", "Expires"];

export function TokensPage(_: { place: Place }) {
  if (!useIsAdmin()) return <Empty title="Tokens are for admins">Sign in with an admin's token to make and revoke others.</Empty>;
  return <ForAdmins />;
}

function ForAdmins() {
  const tokens = usePoll<TokenList>("/tokens", 30_000);
  const [made, setMade] = useState<MadeToken | null>(null);
  return (
    <>
      <h1>Tokens</h1>
      <NewToken onMade={(token) => { setMade(token); tokens.refresh(); }} />
      {made && <Secret token={made} onClose={() => setMade(null)} />}
      <Standing what="tokens" of={tokens}>
        {({ items }) => <TokenTable tokens={items} onDone={tokens.refresh} />}
      </Standing>
    </>
  );
}

function NewToken({ onMade }: { onMade: (token: MadeToken) => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState("member");
  const [project, setProject] = useState("default");
  const [days, setDays] = useState("");
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const expires_at = days === "" ? null : new Date(Date.now() + Number(days) * DAY_MS).toISOString();
    try {
      onMade(await send<MadeToken>("POST", "/tokens", { name, role, project, expires_at }));
      setName("");
    } catch (error) {
      tell("failed", failed(error).message);
    }
  };
  return (
    <form class="card filters" aria-label="Make a token" onSubmit={submit}>
      <label class="field grow"><span>Name: whose it is</span>
        <input required maxLength={200} value={name} onInput={(event) => setName(event.currentTarget.value)} />
      </label>
      <label class="field"><span>Role</span>
        <select value={role} onChange={(event) => setRole(event.currentTarget.value)}>
          {ROLES.map((one) => <option key={one}>{one}</option>)}
        </select>
      </label>
      <label class="field"><span>Project</span>
        <input required maxLength={64} value={project} onInput={(event) => setProject(event.currentTarget.value)} />
      </label>
      <label class="field"><span>Days until it expires</span>
        <input type="number" min={1} max={36500} placeholder="never" value={days} onInput={(event) => setDays(event.currentTarget.value)} />
      </label>
      <button type="submit" class="button primary">Make a token</button>
    </form>
  );
}

/** The secret, for as long as it is looked at: it is nowhere else. */
function Secret({ token, onClose }: { token: MadeToken; onClose: () => void }) {
  useEffect(() => () => onClose(), []);
  return (
    <section class="card stack" aria-label="The new token">
      <h2>The token of {token.name}</h2>
      <p>It is shown this one time: copy it now, and hand it on where nobody else reads.</p>
      <code class="secret">{token.secret}</code>
      <div class="row">
        <Copy label="Copy the token" text={token.secret} />
        <button type="button" class="button small" onClick={onClose}>Done</button>
      </div>
    </section>
  );
}

function TokenTable({ tokens, onDone }: { tokens: readonly Token[]; onDone: () => void }) {
  const revoke = async (token: Token) => {
    await attempt(`The token of ${token.name} opens nothing any more.`, () => send("DELETE", `/tokens/${token.id}`));
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
              <td>{token.role}</td>
              <td>{token.project}</td>
              <td>{moment(token.created_at)}</td>
              <td>{token.created_by}</td>
              <td>{token.expires_at ? moment(token.expires_at) : "never"}</td>
              <td class="actions">
                {stateOf(token) === "valid" && (
                  <Confirm label="Revoke" ariaLabel={`Revoke ${token.name}`} danger question={`Revoke the token of ${token.name}?`} onYes={() => void revoke(token)}>
                    Whoever uses it is locked out at once, in every browser and program. There is no way back.
                  </Confirm>
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
