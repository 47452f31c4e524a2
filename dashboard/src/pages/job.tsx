import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { type ReactElement, useState } from 'react'
import { job as jobQuery } from '../api/queries.ts'
import type { JobView } from '../api/types.ts'
import { Act, Field, why } from '../ui/act.tsx'
import { CopyButton } from '../ui/copy.tsx'
import { JsonTree } from '../ui/json-tree.tsx'
import { JobLog } from '../ui/job-log.tsx'
import { BudgetLink } from '../ui/limit-parts.tsx'
import { Ago, At, Badge, Card, CountDown, Empty, PageHead, State } from '../ui/parts.tsx'
import { Loaded } from '../ui/states.tsx'
import { Timeline } from '../ui/timeline.tsx'
import { count, ordinal } from '../ui/words.ts'

/** One job: why it waits, what happened to it, what it carries. */
export function JobPage(): ReactElement {
  const { id = '' } = useParams({ strict: false })
  return <Loaded query={useQuery(jobQuery(id))}>{(job) => <One job={job} />}</Loaded>
}

const ENDED = new Set(['completed', 'cancelled', 'discarded'])

function One({ job }: { readonly job: JobView }): ReactElement {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <PageHead
        title={
          <span className="inline-flex flex-wrap items-center gap-2">
            {job.task} <State state={job.state} />
          </span>
        }
        sub={<span className="font-mono text-xs">{job.id}</span>}
        actions={<Actions job={job} />}
      />
      <Why job={job} />
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4 xl:grid-cols-[minmax(0,1fr)_22rem]">
        <div className="grid grid-cols-[minmax(0,1fr)] content-start gap-4">
          <Card title="Timeline">
            <Timeline job={job} />
          </Card>
          {(job.attempt > 0 || job.logs.length > 0) && <JobLog job={job} />}
          <Card title="Payload">
            {job.inputOmitted ? <Empty title="It is too large to show" /> : <JsonTree value={job.input} name="input" />}
          </Card>
          {job.state === 'completed' && (
            <Card title="Result">
              {job.resultOmitted ? (
                <Empty title="It is too large to show" />
              ) : (
                <JsonTree value={job.result} name="result" />
              )}
            </Card>
          )}
        </div>
        <Details job={job} />
      </div>
    </div>
  )
}

/** An instant in the words of the server, which the page shows in the viewer's zone. */
const INSTANT = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/

/** Why it does not run yet, in words, with the way to what it waits for. */
function Why({ job }: { readonly job: JobView }): ReactElement | null {
  const { wait } = job
  if (wait === null || ENDED.has(job.state)) return null
  const { waitsOn } = wait
  const position = wait.linePosition ?? wait.position
  return (
    <section aria-label="Why it waits" data-testid="why" className="card border-warn/40 bg-warn-soft p-4">
      {waitsOn !== null && (
        <p className="text-base font-medium [overflow-wrap:anywhere] text-ink">
          Waits for <BudgetLink limit={waitsOn.limit} name={waitsOn.key} />
          {position !== null && <>, {ordinal(position)} in line</>}
          {wait.expectedStart !== null && (
            <>
              , starts {wait.exact ? 'at' : 'about'} <At at={wait.expectedStart} />{' '}
              <span className="font-normal text-soft">
                (<CountDown at={wait.expectedStart} />)
              </span>
            </>
          )}
        </p>
      )}
      <p className={`[overflow-wrap:anywhere] ${waitsOn === null ? 'font-medium text-ink' : 'mt-1 text-soft'}`}>
        {wait.words.split(INSTANT).map((part, n) => (n % 2 === 1 ? <At key={n} at={part} /> : part))}
      </p>
    </section>
  )
}

function Actions({ job }: { readonly job: JobView }): ReactElement {
  const params = { id: job.id }
  const [priority, setPriority] = useState(String(job.priority))
  const [runAt, setRunAt] = useState('')
  const waits = !ENDED.has(job.state) && job.state !== 'active'
  return (
    <>
      {waits && (
        <Act
          label="Run now"
          kind="primary"
          title="Run it now"
          what="It starts next. Where a budget forbids it, the server says which, and nothing changes."
          change={(reason) => ({ method: 'POST', path: '/jobs/{id}/run-now', params, body: why(reason) })}
        />
      )}
      {waits && (
        <Act
          label="Change"
          title="Change when it starts"
          what="Among jobs that wait for the same budget, a higher priority starts first."
          ready={runAt.trim() !== '' || Number(priority) !== job.priority}
          change={(reason) => ({
            method: 'PATCH',
            path: '/jobs/{id}',
            params,
            body: {
              ...(Number(priority) !== job.priority && { priority: Number(priority) }),
              ...(runAt.trim() !== '' && { runAt: runAt.trim() }),
              ...why(reason),
            },
          })}
          fields={
            <>
              <Field label="Priority">
                <input
                  className="field"
                  type="number"
                  value={priority}
                  onChange={(event) => setPriority(event.target.value)}
                />
              </Field>
              <Field
                label="Not before"
                hint="A length such as 10m, or a time such as 2026-01-31T18:00:00Z. Empty: as it is."
              >
                <input className="field" value={runAt} onChange={(event) => setRunAt(event.target.value)} />
              </Field>
            </>
          }
        />
      )}
      {job.state === 'discarded' && (
        <Act
          label="Retry"
          kind="primary"
          title="Run it again"
          what="It gets all its attempts again, and waits for its budgets as a new job does."
          change={(reason) => ({ method: 'POST', path: '/jobs/{id}/retry', params, body: why(reason) })}
        />
      )}
      {!ENDED.has(job.state) && (
        <Act
          label="Cancel"
          kind="danger"
          title="Cancel it"
          what={job.state === 'active' ? 'It runs: its handler is asked to stop.' : 'It will not run.'}
          change={(reason) => ({ method: 'POST', path: '/jobs/{id}/cancel', params, body: why(reason) })}
        />
      )}
      {ENDED.has(job.state) && (
        <Act
          label="Delete"
          kind="danger"
          title="Delete it"
          what="All that is known of it goes, its result too."
          change={(reason) => ({ method: 'DELETE', path: '/jobs/{id}', params, query: why(reason) })}
        />
      )}
      <CopyButton label="Copy as code" text={codeOf(job)} />
    </>
  )
}

/** A call that enqueues the same again. */
export function codeOf(job: JobView): string {
  const options = {
    ...(job.queue !== 'default' && { queue: job.queue }),
    ...(job.priority !== 0 && { priority: job.priority }),
    ...(job.tags.length > 0 && { tags: job.tags }),
    ...(Object.keys(job.meta).length > 0 && { meta: job.meta }),
  }
  const input = JSON.stringify(job.input, null, 2) ?? 'undefined'
  const rest = Object.keys(options).length === 0 ? '' : `, ${JSON.stringify(options, null, 2)}`
  return `// ${job.task} ${job.id}\nawait task.enqueue(${input}${rest})\n`
}

/** Progress is what the handler or its protocol says: a share, or anything else. */
function progressWords(progress: unknown): string {
  return typeof progress === 'number' && progress >= 0 && progress <= 1
    ? `${Math.round(progress * 100)} %`
    : JSON.stringify(progress)
}

/** When an ended job is deleted. */
function Kept({ job: { flow, keptUntil } }: { readonly job: JobView }): ReactElement {
  if (keptUntil !== null) return <At at={keptUntil} />
  return <span>{flow === undefined ? 'someone deletes it' : 'its flow is deleted'}</span>
}

function Details({ job }: { readonly job: JobView }): ReactElement {
  const rows: (readonly [string, ReactElement | string])[] = [
    [
      'Queue',
      <Link key="q" to="/jobs" search={{ queue: job.queue }} className="link">
        {job.queue}
      </Link>,
    ],
    ['Priority', String(job.priority)],
    ['Attempt', `${job.attempt} of ${job.maxAttempts}`],
    [
      'Arrived',
      <span key="c">
        <At at={job.createdAt} /> · <Ago at={job.createdAt} />
      </span>,
    ],
    ['Started', <At key="s" at={job.startedAt} />],
    ['Finished', <At key="f" at={job.finishedAt} />],
  ]
  if (ENDED.has(job.state)) rows.push(['Kept until', <Kept key="k" job={job} />])
  if (job.worker !== null) rows.push(['Worker', String(job.worker)])
  if (job.progress !== undefined && job.progress !== null) rows.push(['Progress', progressWords(job.progress)])
  if (job.flow !== undefined)
    rows.push([
      'Flow',
      <Link key="w" to="/flows/$id" params={{ id: job.flow.id }} className="link">
        {job.flow.id}
      </Link>,
    ])
  if (job.occurrence !== undefined) rows.push(['Schedule', job.occurrence.schedule])
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] content-start gap-4">
      <Card title="Details">
        <dl className="grid grid-cols-[6.5rem_minmax(0,1fr)] gap-y-1.5">
          {rows.map(([name, value]) => (
            <div key={name} className="contents">
              <dt className="text-faint">{name}</dt>
              <dd className="[overflow-wrap:anywhere]">{value}</dd>
            </div>
          ))}
        </dl>
      </Card>
      {job.children.length > 0 && (
        <Card title="Child flows" hint={count(job.children.length)}>
          <ul className="grid max-h-96 gap-1.5 overflow-y-auto" tabIndex={0}>
            {job.children.map(({ id, workflow, state }) => (
              <li key={id} className="flex items-baseline justify-between gap-3">
                <Link to="/flows/$id" params={{ id }} className="link [overflow-wrap:anywhere]" title={id}>
                  {workflow}
                </Link>
                <State state={state} />
              </li>
            ))}
          </ul>
        </Card>
      )}
      {job.limits.length > 0 && (
        <Card title="Budgets">
          <ul className="grid gap-1.5">
            {job.limits.map(({ limit, key, weight }) => (
              <li key={`${limit} ${key}`} className="flex justify-between gap-3">
                <span className="[overflow-wrap:anywhere]">
                  <BudgetLink limit={limit} name={key} />
                </span>
                <span className="shrink-0 text-soft">{weight === 1 ? '1 unit' : `${weight} units`}</span>
              </li>
            ))}
          </ul>
        </Card>
      )}
      {(job.tags.length > 0 || Object.keys(job.meta).length > 0) && (
        <Card title="Tags and metadata">
          <div className="mb-2 flex flex-wrap gap-1.5">
            {job.tags.map((tag) => (
              <Link key={tag} to="/jobs" search={{ tag }}>
                <Badge tone="accent" wraps>
                  {tag}
                </Badge>
              </Link>
            ))}
          </div>
          {Object.keys(job.meta).length > 0 && <JsonTree value={job.meta} name="meta" />}
        </Card>
      )}
    </div>
  )
}
