import { describe, expect, test } from 'vitest'
import type { NewChild } from '../../../src/jobs/workflow.ts'
import { RETENTION, type StoreBackend } from './backend.ts'
import { FAILURE } from './store-harness.ts'
import { eachWorkflowHarness, go, park, record, type WorkflowHarness, type WorkflowSpec } from './workflow-harness.ts'

/** The ends of workflow flows: children, cancelling, deadlines, retries, bounds and keeping. */
export function workflowEnds(backend: StoreBackend): void {
  describe('children', () => children(backend))
  describe('cancelling', () => cancelling(backend))
  describe('deadlines', () => deadlines(backend))
  describe('retrying', () => retrying(backend))
  describe('bounds and keeping', () => keeping(backend))
}

function child(w: WorkflowHarness, name: string, spec: WorkflowSpec = {}, attached = true): NewChild {
  return { flow: w.newFlow(name, spec), step: name, attached }
}

const open = (...names: string[]) => names.map((name) => record(name, { state: 'open' }))

function children(backend: StoreBackend): void {
  const harness = eachWorkflowHarness(backend)

  test('children of two tenants may have one key, and children of one tenant may not', async () => {
    const w = harness()
    const owners = { a: 'one', b: 'two', c: 'two' }
    for (const [name, tenant] of Object.entries(owners))
      await w.base.store.startWorkflows([{ ...w.newFlow(name), owner: { tenant, queue: 'q' } }])
    expect((await w.start()).toSorted()).toEqual(['a', 'b', 'c'])
    const kids = Object.keys(owners).map((name) => ({ name, kid: child(w, 'x', { key: 'k' }) }))
    for (const { name, kid } of kids)
      await w.next(name, { steps: open('x'), children: [kid], then: park({ ends: 'all' }) })
    const shown = await Promise.all(kids.map(({ kid }) => w.base.store.getFlow(kid.flow.job.id)))
    expect(shown.map((flow) => flow && [flow.key, flow.owner?.tenant])).toEqual([
      ['one/k', 'one'],
      ['two/k', 'two'],
      null,
    ])
    // The third parent goes on with the conflict.
    expect((await w.start()).toSorted()).toEqual(['c', 'x', 'x'])
    expect((await w.memory('c')).steps[0]?.error?.code).toBe('flow.conflict')
  })

  test('the end of a child ends its step, and wakes its parent', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const started = [child(w, 'x'), child(w, 'y'), child(w, 'z')]
    await w.next('a', { steps: open('x', 'y', 'z'), children: started, then: park({ ends: 'all' }) })
    expect((await w.start()).toSorted()).toEqual(['x', 'y', 'z'])
    expect(await w.base.flowOf(started[0]!.flow.job.id)).toMatchObject({ parent: w.id('a'), parentStep: 'x' })
    expect((await w.shown('a')).children).toMatchObject([{ name: 'x', step: 'x', state: 'running' }, {}, {}])
    await w.settle('x', { kind: 'complete', result: '1' })
    await w.settle('y', { kind: 'discard', error: FAILURE })
    expect(await w.start()).toEqual([])
    await w.settle('z', { kind: 'cancel' })
    expect(await w.start()).toEqual(['a'])
    const { steps, open: left } = await w.memory('a')
    expect(left).toBe(0)
    expect(steps).toMatchObject([
      { name: 'x', state: 'done', result: '1', error: null },
      { name: 'y', state: 'failed', result: null, error: FAILURE },
      { name: 'z', state: 'failed', error: { code: 'flow.cancelled' } },
    ])
  })

  test('a detached child goes its own way', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const started = child(w, 'x', {}, false)
    await w.next('a', { steps: [record('x')], children: [started] })
    await w.settle('a')
    expect(await w.start()).toEqual(['x'])
    await w.settle('x')
    expect(await w.base.flowOf(started.flow.job.id)).toMatchObject({ parent: null, state: 'completed' })
  })

  test('a child whose key another flow has fails its step at once', async () => {
    const w = harness()
    await w.begin('other', { key: 'k' }, 'x')
    await w.begin('a')
    await w.start()
    const spec = { key: 'k', onConflict: 'reject' } as const
    expect(await w.next('a', { steps: open('x'), children: [child(w, 'x', spec)], then: park({ ends: 'any' }) })).toBe(
      'available',
    )
    await w.start()
    const { steps, open: left } = await w.memory('a')
    expect([left, steps]).toMatchObject([0, [{ name: 'x', state: 'failed', error: { code: 'flow.conflict' } }]])
  })

  test('dropping a child cancels it, and ends no step', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const started = child(w, 'x', { delayUs: 1_000_000 })
    await w.next('a', { steps: open('x'), children: [started], then: park({ signals: ['go'] }) })
    await w.signal('a', 'go')
    await w.start()
    await w.next('a', { drop: ['x'], steps: [record('x', { state: 'skipped' })] })
    expect((await w.base.flowOf(started.flow.job.id)).state).toBe('cancelled')
    expect(await w.steps('a')).toEqual(['x:skipped'])
    expect(await w.memory('a')).toMatchObject({ open: 0, events: 1 })
  })

  test('an end after a new generation ends no step of it', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    await w.next('a', {
      steps: open('x', 's'),
      children: [child(w, 'x')],
      spawn: [w.side('s', { delayUs: 5_000_000 })],
    })
    await w.next('a', { again: '1', then: go(null) })
    expect(await w.start()).toEqual(['a', 'x'])
    expect((await w.memory('a')).open).toBe(1)
    await w.next('a', { steps: open('x'), then: park({ ends: 'all' }) })
    await w.settle('x')
    expect(await w.start()).toEqual(['a'])
    expect(await w.steps('a')).toEqual(['x:open'])
  })
}

/** A flow `a` with two levels of children below it, and side jobs on each level. */
async function tree(w: WorkflowHarness): Promise<NewChild[]> {
  await w.base.define({ one: { concurrency: 1 } })
  await w.begin('a')
  await w.start()
  const below = child(w, 'b')
  const sides = (level: string) => [w.side(`${level}1`, { limits: ['one'] }), w.side(`${level}2`, { limits: ['one'] })]
  await w.next('a', { steps: open('b', 'a1', 'a2'), children: [below], spawn: sides('a'), then: park({ ends: 'all' }) })
  expect((await w.start()).toSorted()).toEqual(['a1/a1', 'b'])
  const last = child(w, 'c')
  await w.next('b', { steps: open('c', 'b1', 'b2'), children: [last], spawn: sides('b'), then: park({ ends: 'all' }) })
  expect(await w.start()).toEqual(['c'])
  return [below, last]
}

function cancelling(backend: StoreBackend): void {
  const harness = eachWorkflowHarness(backend)

  test('cancelling a flow cancels all below it in one answer', async () => {
    const w = harness()
    const [b, c] = await tree(w)
    const answer = await w.base.store.cancelFlow(w.id('a'))
    expect(answer).toMatchObject({ kind: 'cancelled', news: { ended: 'cancelled', kind: 'workflow', name: 'a' } })
    if (answer.kind !== 'cancelled') throw new TypeError()
    expect(answer.requested.toSorted()).toEqual([w.run('a1/a1').id, w.run('c').id].toSorted())
    const states = await Promise.all([b!, c!].map(({ flow }) => w.base.flowOf(flow.job.id)))
    expect([await w.flow('a'), ...states].map(({ state }) => state)).toEqual(['cancelled', 'cancelled', 'cancelled'])
    const asked = await w.base.store.cancellations(w.base.worker)
    expect(new Set(asked)).toEqual(new Set([w.run('a1/a1').seq, w.run('c').seq]))
    expect(await w.base.store.cancelFlow(w.id('a'))).toEqual({ kind: 'finished', state: 'cancelled' })
    await w.settle('c', { kind: 'cancel' })
    await w.settle('a1/a1', { kind: 'cancel' })
    expect(await w.start()).toEqual([])
    expect((await w.base.bucket('one')).active).toBe(0)
  })

  test('the failure of a flow cancels all below it, and its parent sees the failure', async () => {
    const w = harness()
    const [, c] = await tree(w)
    await w.settle('c', { kind: 'discard', error: FAILURE })
    expect((await w.base.flowOf(c!.flow.job.id)).error).toEqual(FAILURE)
    await w.base.store.cancelFlow(w.run('c').id)
    const main = (await w.shown('a')).children[0]!
    expect((await w.base.store.flowSteps(main.id))?.steps[0]).toMatchObject({
      name: 'c',
      state: 'failed',
      error: FAILURE,
    })
    const settled = await w.settle('a1/a1', { kind: 'discard', error: FAILURE })
    expect(settled).toMatchObject({ state: 'discarded' })
    expect(await w.start()).toEqual(['a2/a2'])
    await w.settle('a2/a2')
    await w.base.store.cancelFlow(main.id)
    expect(await w.start()).toEqual(['a'])
    expect(await w.steps('a')).toEqual(['b:failed', 'a1:failed', 'a2:done'])
  })

  test('cancelling its waiting main job cancels the flow, and a side job fails its step', async () => {
    const w = harness()
    await w.begin('a')
    await w.begin('b')
    await w.start()
    for (const name of ['a', 'b'])
      await w.next(name, {
        steps: open('x'),
        spawn: [w.side('x', { delayUs: 9_000_000 })],
        then: park({ ends: 'all' }),
      })
    expect(await w.base.store.cancel(w.id('a'))).toMatchObject({ kind: 'cancelled' })
    expect(await w.state('a')).toEqual(['cancelled'])
    const [side] = (await w.shown('b')).jobs.filter(({ node }) => node > 0)
    await w.base.store.cancel(side!.id)
    expect(await w.start()).toEqual(['b'])
    expect((await w.memory('b')).steps).toMatchObject([
      { name: 'x', state: 'failed', error: { code: 'job.cancelled' } },
    ])
  })
}

function deadlines(backend: StoreBackend): void {
  const harness = eachWorkflowHarness(backend)
  const late = { code: 'flow.deadline', message: 'too late' }

  test('a deadline fails a flow that waits', async () => {
    const w = harness()
    await w.begin('a', { deadlineMs: 5_000 })
    await w.start()
    await w.next('a', { then: park({ signals: ['never'] }) })
    w.base.at(5_000)
    expect(await w.start()).toEqual(['a/~deadline'])
    await w.settle('a/~deadline', { kind: 'discard', error: late })
    expect(await w.flow('a')).toMatchObject({ state: 'failed', error: late })
    expect(await w.base.store.get(w.id('a'))).toMatchObject({ state: 'discarded', error: late })
  })

  test('a deadline asks a run to end, and ends with its flow', async () => {
    const w = harness()
    await w.begin('a', { deadlineMs: 5_000 })
    await w.begin('b', { deadlineMs: 5_000 })
    await w.start()
    await w.settle('b')
    const run = w.run('a')
    w.base.at(5_000)
    expect(await w.start()).toEqual(['a/~deadline'])
    await w.settle('a/~deadline', { kind: 'discard', error: late })
    expect(await w.base.store.cancellations(w.base.worker)).toEqual([run.seq])
    expect(await w.next('a', { then: go(null) })).toBe('cancelled')
    expect(await w.flow('a')).toMatchObject({ state: 'failed', error: late })
  })

  test('a deadline does not count as open', async () => {
    const w = harness()
    await w.begin('a', { deadlineMs: 5_000 })
    await w.start()
    await w.next('a', { steps: open('x'), spawn: [w.side('x')], then: park({ ends: 'all' }) })
    await w.start()
    await w.settle('x/x')
    expect(await w.start()).toEqual(['a'])
    expect(await w.memory('a')).toMatchObject({ open: 0, nodes: 3 })
  })
}

function retrying(backend: StoreBackend): void {
  const harness = eachWorkflowHarness(backend)

  async function failed(w: WorkflowHarness, kind: 'workflow' | 'machine' = 'workflow'): Promise<void> {
    await w.begin('a', { kind, input: '0' })
    await w.start()
    const steps = [record('one', { input: '1' }), record('two', { input: '2' })]
    await w.next('a', { steps, state: '3', then: go('three', { limits: ['slow'] }) })
    await w.start()
    const three = record('three', { state: 'failed', error: FAILURE, input: '3' })
    await w.next('a/three', { steps: [three], then: { kind: 'end', result: null, error: FAILURE } })
    expect(await w.state('a')).toEqual(['failed'])
  }

  test('a failed flow goes on where it failed, without its failed steps', async () => {
    const w = harness()
    await w.base.define({ slow: { rate: 1, per: '10s' } })
    await failed(w)
    expect(await w.base.store.retryFlow(w.id('a'), null)).toBe('retried')
    expect(await w.flow('a')).toMatchObject({ state: 'running', error: null, finishedUs: null, discarded: 0 })
    expect(await w.start()).toEqual(['a'])
    expect((await w.memory('a')).steps.map(({ name }) => name)).toEqual(['one', 'two'])
    expect(await w.base.store.retryFlow(w.id('a'), null)).toBe('not_failed')
    await w.settle('a')
    expect(await w.state('a')).toEqual(['completed'])
  })

  test('a machine goes on at its step, and pays again', async () => {
    const w = harness()
    await w.base.define({ slow: { rate: 1, per: '10s' } })
    await failed(w, 'machine')
    await w.base.store.retry(w.id('a'))
    expect(await w.start()).toEqual([])
    w.base.at(10_000)
    expect(await w.start()).toEqual(['a/three'])
    expect(w.run('a/three')).toMatchObject({ attempt: 1, input: '3' })
  })

  test('a flow goes on from one of its steps, and forgets those behind it', async () => {
    const w = harness()
    await w.base.define({ slow: { rate: 1, per: '1s' } })
    await failed(w)
    expect(await w.base.store.retryFlow(w.id('a'), 'nowhere')).toBe('unknown_step')
    expect(await w.base.store.retryFlow(w.id('a'), 'two')).toBe('retried')
    await w.start()
    expect((await w.memory('a')).steps.map(({ name }) => name)).toEqual(['one'])
  })

  test('a machine goes on from one of its steps, with the state that it had there', async () => {
    const w = harness()
    await w.base.define({ slow: { rate: 1, per: '1s' } })
    await failed(w, 'machine')
    expect(await w.base.store.retryFlow(w.id('a'), 'two')).toBe('retried')
    expect(await w.start()).toEqual(['a'])
    expect(w.run('a').input).toBe('2')
    expect((await w.memory('a')).steps).toMatchObject([{ name: 'two', state: 'retrying', input: '2', attempt: 0 }])
  })

  test('only a failed flow is retried, and no side job of one', async () => {
    const w = harness()
    await w.begin('a')
    expect(await w.base.store.retryFlow(w.id('a'), null)).toBe('not_failed')
    expect(await w.base.store.retryFlow(crypto.randomUUID(), null)).toBe('missing')
    await w.start()
    await w.next('a', { steps: open('x'), spawn: [w.side('x')] })
    await w.start()
    await w.settle('x/x', { kind: 'discard', error: FAILURE })
    expect(await w.base.store.retry(w.run('x/x').id)).toBe(false)
  })

  test('a flow whose key another one has by now is not retried', async () => {
    const w = harness()
    await w.begin('a', { key: 'k' }, 'order')
    await w.start()
    await w.settle('order', { kind: 'discard', error: FAILURE })
    await w.begin('b', { key: 'k' }, 'order')
    expect(await w.base.store.retryFlow(w.id('a'), null)).toBe('not_failed')
  })
}

function keeping(backend: StoreBackend): void {
  const harness = eachWorkflowHarness(backend)

  test('a flow that would remember too much fails, and writes nothing more', async () => {
    const w = harness()
    await w.begin('bytes')
    await w.begin('steps')
    await w.start()
    const large = record('large', { result: JSON.stringify('x'.repeat(9 * 1_048_576)) })
    await w.next('bytes', { steps: [large] })
    expect(await w.next('bytes', { steps: [{ ...large, name: 'more' }], then: go(null) })).toBe('discarded')
    const many = Array.from({ length: 10_001 }, (_, i) => record(`s${i}`))
    expect(await w.next('steps', { steps: many.slice(0, 10_000) })).toBe('active')
    expect(await w.next('steps', { steps: many.slice(10_000) })).toBe('discarded')
    for (const name of ['bytes', 'steps'])
      expect(await w.flow(name)).toMatchObject({ state: 'failed', error: { code: 'flow.too_large' } })
  })

  test('flows may be nested so deep, and no deeper', async () => {
    const w = harness()
    await w.begin('n0')
    for (let level = 1; level <= 100; level++) {
      await w.start()
      const name = `n${level}`
      await w.next(`n${level - 1}`, { steps: open(name), children: [child(w, name)], then: park({ ends: 'all' }) })
    }
    expect(await w.start()).toEqual(['n100'])
    expect(await w.next('n100', { steps: open('x'), children: [child(w, 'x')], then: park() })).toBe('discarded')
    expect(await w.start()).toEqual(['n99'])
    expect((await w.memory('n99')).steps).toMatchObject([{ state: 'failed', error: { code: 'flow.too_deep' } }])
  })

  // Where a backend plays a part, its own suite fills the inbox by a statement.
  test.skipIf(backend.part !== undefined)('a flow takes only so many unread signals', async () => {
    const w = harness()
    await w.begin('a')
    for (let i = 0; i < 100; i++) await Promise.all(Array.from({ length: 100 }, () => w.signal('a', 's')))
    expect((await w.signal('a', 's')).kind).toBe('full')
    await w.start()
    const { signals } = await w.memory('a')
    await w.next('a', { consumed: [signals[0]!.seq] })
    expect((await w.signal('a', 's')).kind).toBe('stored')
  })

  test('a machine keeps its newest steps', async () => {
    const w = harness()
    await w.begin('m', { kind: 'machine' })
    await w.start()
    const steps = Array.from({ length: 1_500 }, (_, i) => record(`s${i}`))
    await w.next('m', { steps, then: go(null) })
    for (let i = 0; i < 128; i++) {
      await w.start()
      await w.next('m', { steps: [record(`t${i}`)], then: go(null) })
    }
    const shown = await w.steps('m')
    expect(shown.length).toBeLessThanOrEqual(1_128)
    expect(shown.at(-1)).toBe('t127:done')
  })

  test('all of a flow goes with it when its time is over', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const { seq } = w.run('a')
    await w.next('a', { steps: open('x'), spawn: [w.side('x')] })
    await w.signal('a', 's', '1', 'once')
    await w.start()
    await w.settle('x/x')
    await w.settle('a')
    w.base.at(RETENTION.completedUs / 1000 - 1)
    await w.base.store.prune(1_000)
    expect(await w.steps('a')).toEqual(['x:done'])
    w.base.at(RETENTION.completedUs / 1000 + 1)
    await w.base.store.prune(1_000)
    expect(await w.base.store.getFlow(w.id('a'))).toBeNull()
    expect(await w.base.store.flowSteps(w.id('a'))).toBeNull()
    expect(await w.base.store.get(w.id('a'))).toBeNull()
    expect(await w.base.store.enterFlow(seq)).toBeNull()
  })

  test('clearing a store forgets flows, steps and signals', async () => {
    const w = harness()
    await w.begin('a', { key: 'k' })
    await w.start()
    await w.next('a', { steps: [record('x')] })
    await w.signal('a', 's')
    await w.base.store.clear()
    expect(await w.base.store.flows({})).toEqual([])
    expect(await w.begin('b', { key: 'k' }, 'a')).toMatchObject({ kind: 'created' })
    await w.start()
    expect(await w.memory('a')).toMatchObject({ steps: [], signals: [] })
  })

  test('flows are listed by kind', async () => {
    const w = harness()
    await w.begin('a')
    await w.begin('m', { kind: 'machine' })
    await w.begin('g', { kind: 'graph', definition: '{"steps":{}}' })
    expect((await w.base.store.flows({ kind: 'machine' })).map(({ name }) => name)).toEqual(['m'])
    expect((await w.base.store.flows({})).map(({ kind }) => kind)).toEqual(['graph', 'machine', 'workflow'])
    await w.start()
    expect((await w.memory('g')).definition).toBe('{"steps":{}}')
  })
}
