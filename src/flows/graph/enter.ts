import type { StepRecord } from '../../jobs/flow-memory.ts'
import { toJsonText } from '../../base/json-value.ts'
import { asError } from '../../base/thrown.ts'
import type { FlowEnd, FlowEntry } from '../../engine/define/flow-entry.ts'
import { storedError } from '../../engine/run/settle.ts'
import type { JobError } from '../../jobs/job-error.ts'
import { errorFrom } from '../../jobs/stored-error.ts'
import { type FlowThen, HOLD_STEP } from '../../jobs/workflow.ts'
import { plainArrival } from '../shared/arrivals.ts'
import { StepFailed } from '../shared/failures.ts'
import { endOf, moveOf } from '../shared/records.ts'
import { beginStep, itemName, waitForCode } from './begin-step.ts'
import { type GraphForm, isInCode } from './form.ts'
import type { GraphModel } from './model.ts'
import { Progress } from './progress.ts'
import { RunContext } from './run-context.ts'
import { fillRefs } from './seen.ts'
import { CodeMissing } from './terms.ts'
import { type Undoing, undoNext } from './undo.ts'
import { endWaits } from './waits.ts'

/**
 * One entry of a graph's main job. It reads how far the flow has come, begins every step whose dependencies have ended,
 * and parks until one of them ends; or it ends the flow. No code of a step runs in it, only what computes limits, keys,
 * inputs, lists and conditions.
 */
export async function enterGraph(model: GraphModel, entry: FlowEntry): Promise<FlowEnd> {
  const memory = entry.job.memory ?? (await entry.store.enterFlow(entry.job.seq))
  if (!memory) return { kind: 'cancelled' }
  if (entry.run.step === null && entry.run.moves > 0) entry.tell({ kind: 'woken' })
  const form = memory.definition === null ? model.form : (JSON.parse(memory.definition) as GraphForm)
  const run = new RunContext(model, entry, new Progress(form, memory, entry.job.startedUs))
  const { progress } = run
  await endWaits(run)
  endItems(run)
  const isOver = (): boolean => form.on_failure === 'fast' && progress.failure !== null
  await beginReady(run, isOver)
  if (run.ended) return run.ended
  if (isOver()) for (const record of progress.open) stopOpen(run, record)
  const then = progress.open.length > 0 ? parked(run) : await ended(run)
  const { changed, spawned, children, consumed, dropped } = progress
  const move = moveOf({
    steps: [...changed.values()],
    consumed,
    spawn: spawned,
    children,
    drop: dropped,
    keepPermits: entry.run.step === HOLD_STEP,
    then,
  })
  return { kind: 'moved', move, error: then.kind === 'end' && then.error !== null ? errorFrom(then.error) : null }
}

/** Begins what may begin, also what may begin because of that. */
async function beginReady(run: RunContext, isOver: () => boolean): Promise<void> {
  const { progress } = run
  const begun = new Set<string>()
  for (;;) {
    const ready = progress.ready.filter((name) => !begun.has(name))
    if (ready.length === 0) return
    run.isAlone = ready.length === 1 && progress.open.length === 0
    for (const name of ready) {
      if (isOver()) return
      begun.add(name)
      await beginStep(run, name)
      if (run.ended) return
    }
  }
}

/** A step that is a flow for each item ends with the last of them. */
function endItems({ progress }: RunContext): void {
  for (const [name, { each, child }] of Object.entries(progress.form.steps)) {
    if (each === undefined || child === undefined || progress.record(name)?.state !== 'open') continue
    const items: StepRecord[] = []
    for (let item; (item = progress.record(itemName(name, items.length)));) items.push(item)
    if (items.some(({ state }) => state === 'open')) continue
    const failed = items.findIndex(({ state }) => state === 'failed')
    const error = items[failed]?.error
    if (error) progress.fail(name, { ...error, message: `item ${failed}: ${error.message}` })
    else progress.finish(name, `[${items.map(({ result }) => result ?? 'null').join(',')}]`)
  }
}

/** The flow fails fast: what has yet to end is cancelled. */
function stopOpen({ progress }: RunContext, { name, state }: StepRecord): void {
  const isNew =
    progress.spawned.some(({ step }) => step === name) || progress.children.some(({ step }) => step === name)
  if (isNew) {
    progress.spawned.splice(0, Infinity, ...progress.spawned.filter(({ step }) => step !== name))
    progress.children.splice(0, Infinity, ...progress.children.filter(({ step }) => step !== name))
  } else if (state === 'open') progress.dropped.push(name)
  progress.stop(name)
}

function parked({ progress, home }: RunContext): FlowThen {
  const { open, form, memory } = progress
  const due = open.flatMap(({ dueUs }) => dueUs ?? [])
  return {
    kind: 'park',
    seen: memory.events,
    signals: [
      ...new Set(open.flatMap(({ name, state }) => (state === 'awaiting' ? (form.steps[name]?.signal ?? []) : []))),
    ],
    ends: endsThatMatter(progress),
    dueUs: due.length === 0 ? null : Math.min(...due),
    arrival: plainArrival(home),
  }
}

/** The last end is enough where no step can begin before it: a flow that joins many is then entered once. */
function endsThatMatter(progress: Progress): 'any' | 'all' | 'none' {
  const { form } = progress
  const open = progress.open.filter(({ state }) => state === 'open').map(({ name }) => name)
  if (open.length === 0) return 'none'
  if (form.on_failure === 'fast' || open.some((name) => !Object.hasOwn(form.steps, name))) return 'any'
  const next = Object.entries(form.steps).filter(
    ([name, { after }]) =>
      progress.standing(name) === 'waiting' && after.every((each) => progress.standing(each) !== 'waiting'),
  )
  return next.every(([, { after }]) => open.every((name) => after.includes(name))) ? 'all' : 'any'
}

/** Nothing is open anymore: the flow is done, or undoes what it did, or fails. */
async function ended(run: RunContext): Promise<FlowThen> {
  const { progress } = run
  const { failure, form } = progress
  if (failure?.error) {
    const undone = await undoNext(run)
    if (undone.kind === 'going on') return parked(run)
    for (const name of Object.keys(form.steps)) if (progress.standing(name) === 'stopped') progress.stop(name)
    return endOf(null, failed(new StepFailed({ step: failure.name, attempt: failure.attempt }, failure.error), undone))
  }
  try {
    return endOf(await outputOf(run), null)
  } catch (error) {
    if (!(error instanceof CodeMissing)) return endOf(null, storedError(asError(error)))
    waitForCode(run, '')
    return parked(run)
  }
}

function failed(failure: StepFailed, undone: Undoing): JobError {
  const error = failure.toFlowError()
  return {
    ...error,
    details: {
      ...error.details,
      ...(undone.kind === 'done' && { undone: true }),
      ...(undone.kind === 'failed' && { undone: false, undo_failed: undone.step }),
    },
  }
}

async function outputOf(run: RunContext): Promise<string> {
  const { form } = run.progress
  const { output } = form
  const names = Object.keys(form.steps)
  const what = `the output of graph ${form.name}`
  if (output === undefined) {
    const last = names.filter((name) => !Object.values(form.steps).some(({ after }) => after.includes(name)))
    const { input: _, ...results } = await run.seen(last)
    return toJsonText(results, what)
  }
  const seen = await run.seen(names)
  if (!isInCode(output)) return toJsonText(fillRefs(output, seen), what)
  if (!run.model.output) throw new CodeMissing(null)
  return toJsonText(run.model.output(seen as never), what)
}
