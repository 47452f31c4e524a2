import { useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import { lazy, type ReactElement, Suspense, useState } from 'react'
import { flow as flowQuery } from '../api/queries.ts'
import type { FlowStep, FlowView } from '../api/types.ts'
import { Act, Field, why } from '../ui/act.tsx'
import { JsonTree } from '../ui/json-tree.tsx'
import { isJson, JsonField } from '../ui/json-field.tsx'
import { BudgetLink } from '../ui/limit-parts.tsx'
import { At, Card, CountDown, Empty, Figure, PageHead, State } from '../ui/parts.tsx'
import { Loaded } from '../ui/states.tsx'
import { count, duration, plural } from '../ui/words.ts'

const FlowGraph = lazy(() => import('../ui/flow-graph.tsx').then(({ FlowGraph }) => ({ default: FlowGraph })))

/** One flow: its steps, what each waits for, and what can be tried again. */
export function FlowPage(): ReactElement {
  const { id = '' } = useParams({ strict: false })
  return <Loaded query={useQuery(flowQuery(id))}>{(flow) => <One flow={flow} />}</Loaded>
}

function One({ flow }: { readonly flow: FlowView }): ReactElement {
  const [chosen, setChosen] = useState<string | null>(null)
  const step = flow.steps.find(({ name }) => name === chosen) ?? null
  const waiting = flow.steps.filter(({ state }) => state === 'waiting')
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <PageHead
        title={
          <span className="inline-flex flex-wrap items-center gap-2">
            {flow.workflow ?? flow.name ?? flow.kind}
            {flow.key !== null && <span className="font-normal text-soft">{flow.key}</span>}
            <State state={flow.state} />
          </span>
        }
        sub={
          <>
            <span className="font-mono text-xs">{flow.id}</span>
            {flow.parent !== null && (
              <>
                {' '}
                · started by{' '}
                <Link to="/flows/$id" params={{ id: flow.parent.id }} className="link">
                  {flow.parent.step}
                </Link>
              </>
            )}
          </>
        }
        actions={<Actions flow={flow} />}
      />
      {flow.error !== null && (
        <p className="card border-bad/40 bg-bad-soft px-4 py-3 text-bad [overflow-wrap:anywhere]">
          {flow.error.message}
        </p>
      )}
      <div className="grid grid-cols-2 gap-3 lg:grid-cols-4">
        <Figure name="Kind" value={flow.kind} />
        <Figure
          name="Steps done"
          value={count(flow.steps.filter(({ state }) => state === 'done').length)}
          unit={`of ${count(flow.steps.length)}${flow.steps.some(({ after }) => after) ? '' : ' so far'}`}
        />
        <Figure name="Wait now" value={count(waiting.length)} unit={waiting.length === 1 ? 'step' : 'steps'} />
        <Figure
          name={flow.finishedAt === null ? 'Began' : 'Took'}
          value={
            flow.finishedAt === null ? (
              <At at={flow.createdAt} />
            ) : (
              duration(Date.parse(flow.finishedAt) - Date.parse(flow.createdAt))
            )
          }
        />
      </div>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4 xl:grid-cols-[minmax(0,1fr)_24rem]">
        <Card title="Steps" hint="choose one" flush>
          {flow.steps.length === 0 ? (
            <Empty title="No step has begun" />
          ) : (
            <Suspense fallback={<div className="h-96" />}>
              <FlowGraph flow={flow} chosen={chosen} choose={setChosen} />
            </Suspense>
          )}
        </Card>
        {step === null ? (
          <StepList steps={flow.steps} choose={setChosen} />
        ) : (
          <Step flow={flow} step={step} close={() => setChosen(null)} />
        )}
      </div>
      {flow.state === 'completed' && (
        <Card title="Result">
          <JsonTree value={flow.result} name="result" />
        </Card>
      )}
    </div>
  )
}

function Actions({ flow }: { readonly flow: FlowView }): ReactElement {
  const params = { id: flow.id }
  const [signal, setSignal] = useState('')
  const [payload, setPayload] = useState('')
  const awaited = flow.steps.flatMap(({ state, signals = [] }) => (state === 'awaiting' ? signals : []))
  return (
    <>
      {awaited.length > 0 && (
        <Act
          label="Signal"
          kind="primary"
          title="Send a signal"
          what={`It awaits ${awaited.join(', ')}.`}
          ready={(signal || awaited[0] || '') !== '' && isJson(payload)}
          change={(reason) => ({
            method: 'POST',
            path: '/flows/{id}/signal',
            params,
            body: {
              name: signal || (awaited[0] ?? ''),
              ...(payload.trim() !== '' && { payload: JSON.parse(payload) as unknown }),
              ...why(reason),
            },
          })}
          fields={
            <>
              <Field label="Name">
                <input
                  className="field"
                  value={signal}
                  placeholder={awaited[0]}
                  onChange={(event) => setSignal(event.target.value)}
                />
              </Field>
              <JsonField label="Payload" value={payload} onChange={setPayload} />
            </>
          }
        />
      )}
      {flow.state === 'failed' && (
        <Act
          label="Retry"
          kind="primary"
          title="Try it again"
          what="Steps that are done keep their results. It goes on at the step that failed."
          change={(reason) => ({ method: 'POST', path: '/flows/{id}/retry', params, body: why(reason) })}
        />
      )}
      {flow.state === 'running' && (
        <Act
          label="Cancel"
          kind="danger"
          title="Cancel it"
          what="Steps that wait will not run. Steps that run are asked to stop."
          change={(reason) => ({ method: 'POST', path: '/flows/{id}/cancel', params, body: why(reason) })}
        />
      )}
    </>
  )
}

function StepList({
  steps,
  choose,
}: {
  readonly steps: readonly FlowStep[]
  readonly choose: (name: string) => void
}): ReactElement {
  return (
    <Card title="In order" flush>
      <ol className="max-h-[30rem] divide-y divide-line overflow-y-auto" tabIndex={0} aria-label="Steps in order">
        {steps.map((step) => (
          <li key={step.name} className="px-4 py-2">
            <button
              type="button"
              onClick={() => choose(step.name)}
              className="flex w-full items-center justify-between gap-3 text-left"
            >
              <span className="truncate link">{step.name}</span>
              <State state={step.state} />
            </button>
            <StepWait step={step} />
          </li>
        ))}
      </ol>
    </Card>
  )
}

/** What a step waits for, if it does. */
function StepWait({ step }: { readonly step: FlowStep }): ReactElement | null {
  if (step.state === 'waiting' && step.waitedFor !== null)
    return (
      <p className="text-xs text-warn">
        waits for{' '}
        <BudgetLink limit={step.waitedFor.limit} name={step.waitedFor.key === '' ? null : step.waitedFor.key} />
        {step.wait?.expectedStart && (
          <>
            , starts <CountDown at={step.wait.expectedStart} />
          </>
        )}
      </p>
    )
  if (step.state === 'sleeping')
    return (
      <p className="text-xs text-faint">
        wakes <CountDown at={step.until} />
      </p>
    )
  if (step.signals !== undefined && step.state === 'awaiting')
    return <p className="text-xs text-faint">awaits {step.signals.join(', ')}</p>
  return null
}

function Step({
  flow,
  step,
  close,
}: {
  readonly flow: FlowView
  readonly step: FlowStep
  readonly close: () => void
}): ReactElement {
  const { state } = flow
  return (
    <Card
      title={step.name}
      actions={
        <button type="button" onClick={close} className="link">
          All steps
        </button>
      }
    >
      <div className="grid gap-3">
        <div className="flex flex-wrap items-center gap-3">
          <State state={step.state} />
          <span className="text-soft">{plural(step.attempt, 'attempt')}</span>
        </div>
        <StepWait step={step} />
        <dl className="grid grid-cols-[6rem_minmax(0,1fr)] gap-y-1">
          <dt className="text-faint">Started</dt>
          <dd>
            <At at={step.startedAt} />
          </dd>
          <dt className="text-faint">Finished</dt>
          <dd>
            <At at={step.finishedAt} />
          </dd>
          <dt className="text-faint">Waited</dt>
          <dd>
            {duration(step.waitedMs)}
            {step.waitedFor !== null &&
              ` for ${step.waitedFor.limit}${step.waitedFor.key === '' ? '' : ` · ${step.waitedFor.key}`}`}
          </dd>
        </dl>
        {step.error !== null && <p className="text-bad [overflow-wrap:anywhere]">{step.error.message}</p>}
        {step.child !== undefined && (
          <Link to="/flows/$id" params={{ id: step.child.id }} className="link">
            {step.child.workflow}
          </Link>
        )}
        {step.state === 'done' && <JsonTree value={step.result} name="result" />}
        {(state === 'failed' || state === 'completed') && (
          <Act
            label="Retry from here"
            title={`Try it again from ${step.name}`}
            what="This step and what came after it run again. Steps before it keep their results."
            change={(reason) => ({
              method: 'POST',
              path: '/flows/{id}/retry',
              params: { id: flow.id },
              body: { from: step.name, ...why(reason) },
            })}
          />
        )}
      </div>
    </Card>
  )
}
