import type { Command } from 'commander'
import { SluiceError } from '../../base/errors.ts'
import type { FlowPageQuery } from '../../engine/api/flow-query.ts'
import type { FlowView } from '../../engine/api/flow-views.ts'
import type { FlowsApi } from '../../engine/api/flows.ts'
import { FLOW_STATES, type FlowState } from '../../jobs/flow.ts'
import type { Store } from '../../store/contract/store.ts'
import { flowNode, treeLines } from '../flow-tree.ts'
import { jsonOf } from '../json.ts'
import { type Column, tableOf } from '../table.ts'
import { addStoreOptions, addViewOptions, show, type View, type ViewFlags, wholeOf } from '../view.ts'
import { inWords, printable } from '../words.ts'

interface ListFlags extends ViewFlags {
  readonly workflow?: string
  readonly key?: string
  readonly state?: string
  readonly cursor?: string
  readonly limit: string
}

interface SignalFlags extends ViewFlags {
  readonly once?: string
}

interface RetryFlags extends ViewFlags {
  readonly from?: string
}

const READS = 'Exit code: 0; 1 when there is no such store or flow; 2 for a wrong option.'
const CHANGES = `Exit code: 0; 1 when there is no such store or flow, or when its state does not allow it; 2 for a wrong
option or argument.`
const LIST = `
Newest first. States: ${FLOW_STATES.join(', ')}. With --json: { flows, cursor }; give the cursor to --cursor for the
next page, with the same filter.

${READS}`
const SHOW = `
The steps of a flow as a tree, in the order in which it came to them, with those of its children. Of a step that waits:
its budget, its position and its expected start. With --json: the flow with its steps, each that waits with what
sluice jobs says of its job.

${READS}`
const EXPLAIN = `
What the flow waits for, at which position, and when it goes on, in words. With --json: { words, waits }.

${READS}`
const SIGNAL = `
The payload is JSON, null if it is left out. It is not checked against the schema of the workflow, which only engines
know. With --once a second signal of the same name and text does nothing. With --json: { id, signal, duplicate }.

${CHANGES}`
const RETRY = `
The flow goes on from where it failed; with --from from that step, which runs again with all that came after it. Steps
that run again pay their limits again. With --json: { id, retried }.

${CHANGES}`
const CANCEL = `
The children that the flow waits for are cancelled with it. Jobs that wait end at once, running ones are asked to end.
With --json: { id, cancelled }.

${CHANGES}`

/** Adds `sluice flows`. */
export function registerFlows(program: Command): void {
  const flows = program.command('flows').description('the flows of a store: what they wait for, and signals to them')
  const list = flows
    .command('list')
    .description('flows, newest first')
    .option('--workflow <name>', 'only flows of this workflow')
    .option('--key <key>', 'only flows of this key')
    .option('--state <states>', 'only flows in this state, or in one of several: running,failed')
    .option('--limit <count>', 'so many flows, 1 to 1000', '20')
    .option('--cursor <cursor>', 'the cursor of the page before')
  addViewOptions(list)
    .addHelpText('after', LIST)
    .action((flags: ListFlags) =>
      show(
        flags,
        looking((api, nowMs) => listed(api, flags, nowMs)),
      ),
    )
  addViewOptions(flows.command('show').description('one flow and its steps as a tree').argument('<id>'))
    .addHelpText('after', SHOW)
    .action((id: string, flags: ViewFlags) =>
      show(
        flags,
        looking((api, nowMs) => tree(api, id, nowMs)),
      ),
    )
  addViewOptions(flows.command('explain').description('what a flow waits for, in words').argument('<id>'))
    .addHelpText('after', EXPLAIN)
    .action((id: string, flags: ViewFlags) =>
      show(
        flags,
        looking((api) => explained(api, id)),
      ),
    )
  const signal = flows.command('signal').description('send a signal to a running flow')
  signal.argument('<id>').argument('<name>', 'of the signal').argument('[payload]', 'as JSON', 'null')
  addStoreOptions(signal)
    .option('--once <text>', 'a second signal of this name with this text does nothing')
    .addHelpText('after', SIGNAL)
    .action((id: string, name: string, payload: string, flags: SignalFlags) =>
      show(
        flags,
        looking((api) => signalled(api, id, name, payload, flags)),
      ),
    )
  addStoreOptions(flows.command('retry').description('run a failed flow again').argument('<id>'))
    .option('--from <step>', 'from this step on')
    .addHelpText('after', RETRY)
    .action((id: string, flags: RetryFlags) =>
      show(
        flags,
        looking((api) => retried(api, id, flags)),
      ),
    )
  addStoreOptions(flows.command('cancel').description('cancel a flow and its children').argument('<id>'))
    .addHelpText('after', CANCEL)
    .action((id: string, flags: ViewFlags) =>
      show(
        flags,
        looking((api) => cancelled(api, id)),
      ),
    )
}

function looking(look: (api: FlowsApi, nowMs: number) => Promise<View>): (store: Store) => Promise<View> {
  return async (store) => {
    const { FlowsApi } = await import('../../engine/api/flows.ts')
    const { readingParts } = await import('../reading-parts.ts')
    return look(new FlowsApi(readingParts(store)), store.nowUs() / 1000)
  }
}

async function listed(api: FlowsApi, flags: ListFlags, nowMs: number): Promise<View> {
  const { workflow, key, state, cursor } = flags
  const query: FlowPageQuery = {
    limit: wholeOf(flags.limit, '--limit'),
    ...(workflow !== undefined && { workflow }),
    ...(key !== undefined && { key }),
    ...(state !== undefined && { states: statesOf(state) }),
    ...(cursor !== undefined && { cursor }),
  }
  const page = await api.page(query)
  return {
    data: page,
    lines: (paint) => [
      ...(page.flows.length === 0
        ? ['No such flows.']
        : tableOf(
            COLUMNS,
            page.flows.map((flow) => row(flow, nowMs)),
            paint,
          )),
      ...(page.cursor === null ? [] : [paint('dim', `There are more: --cursor ${page.cursor}`)]),
    ],
  }
}

const COLUMNS: readonly Column[] = [
  { head: 'id' },
  { head: 'kind' },
  { head: 'name' },
  { head: 'key' },
  { head: 'state' },
  { head: 'started', right: true },
  { head: 'took', right: true },
]

function row({ id, kind, name, key, state, startedAt, finishedAt }: FlowView, nowMs: number): string[] {
  const took = finishedAt === null ? '' : inWords(finishedAt.getTime() - startedAt.getTime()).replace('now', '0 ms')
  const ago = `${inWords(nowMs - startedAt.getTime())} ago`.replace('now ago', 'now')
  return [id, kind, name ?? '', key ?? '', state, ago, took]
}

async function tree(api: FlowsApi, id: string, nowMs: number): Promise<View> {
  const node = await flowNode(api, id)
  if (!node) throw missing(id)
  return { data: node.flow, lines: (paint) => treeLines(node, nowMs, paint) }
}

async function explained(api: FlowsApi, id: string): Promise<View> {
  const found = await api.explain(id)
  if (!found) throw missing(id)
  return { data: found, lines: () => [printable(found.words)] }
}

async function signalled(
  api: FlowsApi,
  id: string,
  signal: string,
  text: string,
  { once }: SignalFlags,
): Promise<View> {
  const { duplicate } = await api.signal(
    id,
    signal,
    jsonOf(text, 'The payload', '{"by":"ann"}'),
    once === undefined ? {} : { once },
  )
  return {
    data: { id, signal, duplicate },
    lines: () => [
      duplicate ? 'It was sent before, and is not sent again.' : `The flow ${printable(id)} has the signal.`,
    ],
  }
}

async function retried(api: FlowsApi, id: string, { from }: RetryFlags): Promise<View> {
  const isRetried = await api.retry(id, from === undefined ? {} : { from })
  return outcome(api, id, { id, retried: isRetried }, isRetried, 'goes on', (state) =>
    state === 'failed' ? 'another running flow has its key' : 'only a failed flow can be retried',
  )
}

async function cancelled(api: FlowsApi, id: string): Promise<View> {
  const isCancelled = await api.cancel(id)
  const refused = (): string => 'only a running flow can be cancelled'
  return outcome(api, id, { id, cancelled: isCancelled }, isCancelled, 'is cancelled', refused)
}

async function outcome(
  api: FlowsApi,
  id: string,
  data: object,
  isDone: boolean,
  done: string,
  refused: (state: string) => string,
): Promise<View> {
  if (!isDone) process.exitCode = 1
  const state = isDone ? '' : ((await api.get(id))?.state ?? 'gone')
  return { data, lines: () => [isDone ? `The flow ${id} ${done}.` : `The flow ${id} is ${state}: ${refused(state)}.`] }
}

function statesOf(text: string): FlowState[] {
  return text.split(',').map((name) => {
    const state = FLOW_STATES.find((each) => each === name.trim())
    if (state !== undefined) return state
    throw new SluiceError(
      'cli.usage',
      `--state is invalid: ${JSON.stringify(name)}. Expected one of ${FLOW_STATES.join(', ')}.`,
    )
  })
}

function missing(id: string): SluiceError {
  return new SluiceError('flow.not_found', `The flow ${printable(id)} does not exist. Its retention may be over.`)
}
