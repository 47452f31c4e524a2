// The traces of flows, by the real SDK: from a start over each attempt of each step to the flows that a flow starts.
import { SpanStatusCode } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base'
import { describe, expect, test } from 'vitest'
import { graph, machine, workflow } from '../../src/exports/flows.ts'
import { call, input, task } from '../../src/exports/index.ts'
import { FlowsHarness, STORES } from '../flows/flows-harness.ts'
import { observe, withContext } from './telemetry-harness.ts'

withContext()

const numbered = input<{ n: number }>()
const ship = task('ship', numbered, { run: ({ n }) => n })

const idOf = (span: ReadableSpan | undefined): string | undefined => span?.spanContext().spanId
const attempts = (spans: readonly ReadableSpan[]): unknown[] =>
  spans.map((span) => span.attributes['sluice.job.attempt'])

describe.each(STORES)('on $name', (store) => {
  test('each attempt of each step of a flow is a span, linked to the start and within a run', async () => {
    const w = new FlowsHarness(store)
    let tries = 0
    const inner = workflow('inner', numbered, { run: (_input, flow) => flow.step('deep', () => 7) })
    const order = workflow('order', numbered, {
      run: async ({ n }, flow) => {
        await flow.step('charge', { retry: { attempts: 2, backoff: 'fixed', initial: '1s', jitter: false } }, () => {
          if (++tries === 1) throw new RangeError('declined')
        })
        await flow.call('ship', ship, { n })
        return flow.child('inner', inner, { n })
      },
    })
    const engine = await w.start({ tasks: [ship], workflows: [order, inner] })
    const { named, spans, tracer } = observe(engine)
    const started = await tracer.startActiveSpan('request', async (span) => {
      const flow = await order.start({ n: 1 })
      span.end()
      return flow
    })
    await w.clock.advance('30s')
    expect((await engine.flows.get(started.id))?.state).toBe('completed')
    const [request] = named('request')
    const [send, ...more] = named('send default')
    expect(more).toEqual([])
    expect(send).toMatchObject({
      parentSpanContext: { spanId: idOf(request) },
      attributes: { 'sluice.task': 'order', 'messaging.message.id': started.id },
    })
    const charges = named('step charge')
    expect(attempts(charges)).toEqual([1, 2])
    expect(charges[0]).toMatchObject({
      status: { code: SpanStatusCode.ERROR, message: 'declined' },
      attributes: { 'error.type': 'RangeError', 'sluice.flow.id': started.id, 'sluice.task': 'order' },
    })
    expect(charges[1]?.status.code).toBe(SpanStatusCode.UNSET)
    const runs = named('process default')
    for (const span of [...charges, ...named('step deep')]) {
      expect(runs.map(idOf)).toContain(span.parentSpanContext?.spanId)
      expect(span.links[0]?.context.spanId).toBe(idOf(send))
    }
    expect(named('step deep')).toHaveLength(1)
    // A step that is a task is a run of its own, in the same trace.
    const shipped = runs.find((run) => run.attributes['sluice.task'] === 'ship')
    expect(shipped).toMatchObject({
      parentSpanContext: { spanId: idOf(send) },
      links: [{ context: { spanId: idOf(send) } }],
    })
    const traces = new Set(spans().map((span) => span.spanContext().traceId))
    expect([...traces]).toEqual([request?.spanContext().traceId])
  })

  test('the states of a machine and the steps of a graph are spans of the start’s trace', async () => {
    const w = new FlowsHarness(store)
    const states = machine('states', {
      states: { a: numbered, b: numbered },
      first: 'a',
      run: { a: (state, to) => to.next('b', state), b: (_state, to) => to.done(undefined) },
    })
    const steps = graph('steps', numbered)
      .step('left', () => 1)
      .step('right', () => 2)
      .call('ship', ship, ({ input: { n } }) => ({ n }))
      .output(() => null)
    const engine = await w.start({ tasks: [ship], workflows: [states, steps] })
    const { named, spans } = observe(engine)
    const idsOf = (found: readonly ReadableSpan[]): unknown[] => [
      ...new Set(found.map((span) => [span.spanContext().traceId, span.links[0]?.context.spanId].join())),
    ]
    await states.start({ n: 1 })
    await w.clock.advance('10s')
    const moved = [...named('step a'), ...named('step b')]
    expect(moved).toHaveLength(2)
    await steps.start({ n: 1 })
    await w.clock.advance('10s')
    // A step that has a job of its own is a run.
    const ran = named('process default').filter(({ attributes }) =>
      /^steps\/|^ship$/.test(String(attributes['sluice.task'])),
    )
    const tasks = new Set(ran.map(({ attributes }) => attributes['sluice.task']))
    expect([ran.length, tasks]).toEqual([3, new Set(['ship', 'steps/left', 'steps/right'])])
    const starts = named('send default').map((span) => `${span.spanContext().traceId},${idOf(span)}`)
    expect([idsOf(moved), idsOf(ran)]).toEqual(starts.map((start) => [start]))
    expect(new Set(spans().map((span) => span.spanContext().traceId)).size).toBe(2)
  })

  test('each run of a chain, a group and a batch is linked to the flow’s start', async () => {
    const w = new FlowsHarness(store)
    const engine = await w.start({ tasks: [ship] })
    const { named } = observe(engine)
    await engine.flows.start({ kind: 'chain', steps: [call(ship, { n: 1 }), call(ship, { n: 2 })] })
    await engine.flows.start({
      kind: 'batch',
      jobs: [call(ship, { n: 3 })],
      callbacks: { onSuccess: call(ship, { n: 4 }) },
    })
    await w.clock.advance('10s')
    const [chain, batch] = named('send default')
    expect(chain?.attributes).toMatchObject({ 'sluice.task': 'ship', 'messaging.batch.message_count': 2 })
    const linked = named('process default').map((run) => String(run.links[0]?.context.spanId))
    const runsOf = (send: ReadableSpan | undefined): number => linked.filter((id) => id === idOf(send)).length
    expect([linked.length, runsOf(chain), runsOf(batch)]).toEqual([4, 2, 2])
  })

  test('without instrumentation a flow carries no trace', async () => {
    const w = new FlowsHarness(store)
    const body = workflow('body', numbered, { run: (input, flow) => flow.call('ship', ship, input) })
    const engine = await w.start({ tasks: [ship], workflows: [body] })
    const { off, spans } = observe(engine)
    off()
    const { id } = await body.start({ n: 1 })
    await w.clock.advance('10s')
    expect((await engine.flows.get(id))?.state).toBe('completed')
    expect(spans()).toEqual([])
  })
})
