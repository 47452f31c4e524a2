import { describe, expect, test } from 'vitest'
import type { StoreBackend } from './backend.ts'
import { FAILURE } from './store-harness.ts'
import { arrival, eachWorkflowHarness, go, park, record } from './workflow-harness.ts'

/** Flows whose jobs go from step to step. */
export function workflows(backend: StoreBackend): void {
  describe('starting', () => starting(backend))
  describe('moving', () => moving(backend))
  describe('the guard', () => guard(backend))
  describe('staying', () => staying(backend))
  describe('side jobs', () => sides(backend))
  describe('parking and waking', () => waking(backend))
}

function starting(backend: StoreBackend): void {
  const harness = eachWorkflowHarness(backend)

  test('the id of the main job is the id of the flow, and its run says where it stands', async () => {
    const w = harness()
    w.base.at(3)
    const { id } = await w.begin('order', { step: 'first', input: '{"n":1}', key: 'k1' })
    expect(await w.start()).toEqual(['order/first'])
    const run = w.run('order/first')
    expect(run.id).toBe(id)
    expect(run.flow).toMatchObject({ id, node: 0, callback: null, parentResults: [] })
    expect(run.flow?.workflow).toEqual({ kind: 'workflow', step: 'first', item: null, moves: 0 })
    expect(await w.flow('order')).toMatchObject({
      id,
      kind: 'workflow',
      name: 'order',
      state: 'running',
      key: 'k1',
      generation: 0,
      total: 1,
      parent: null,
      parentStep: null,
      error: null,
      createdUs: w.base.us(3),
    })
    expect(await w.memory('order/first')).toMatchObject({
      id,
      kind: 'workflow',
      name: 'order',
      key: 'k1',
      state: 'running',
      generation: 0,
      events: 0,
      open: 0,
      input: '{"n":1}',
      held: false,
      steps: [],
      signals: [],
      nodes: 1,
    })
  })

  test('of one name and key one flow runs at a time', async () => {
    const w = harness()
    const { id } = await w.begin('a', { key: 'k' }, 'order')
    expect(await w.begin('b', { key: 'k' }, 'order')).toEqual({ kind: 'duplicate', id })
    expect(await w.begin('c', { key: 'k', onConflict: 'reject' }, 'order')).toEqual({ kind: 'conflict', id })
    expect(await w.begin('d', { key: 'k' }, 'other')).toMatchObject({ kind: 'created' })
    await w.start()
    await w.settle('order')
    expect(await w.begin('e', { key: 'k' }, 'order')).toMatchObject({ kind: 'created' })
  })

  test('flows of one call are stored together, and a key counts within the call', async () => {
    const w = harness()
    const flows = [w.newFlow('x', { key: 'k' }), w.newFlow('x', { key: 'k' }), w.newFlow('x')]
    const answers = await w.base.store.startWorkflows(flows)
    expect(answers.map(({ kind }) => kind).toSorted()).toEqual(['created', 'created', 'duplicate'])
    expect(await w.start()).toEqual(['x', 'x'])
  })

  test('a flow may start later', async () => {
    const w = harness()
    await w.begin('order', { delayUs: 5_000_000 })
    expect(await w.start()).toEqual([])
    w.base.at(5_000)
    expect(await w.start()).toEqual(['order'])
  })

  test('the end of the main job ends its flow', async () => {
    const w = harness()
    for (const name of ['done', 'failed', 'stopped']) await w.begin(name)
    await w.start()
    await w.settle('done', { kind: 'complete', result: '7' })
    await w.settle('failed', { kind: 'discard', error: FAILURE })
    await w.settle('stopped', { kind: 'cancel' })
    expect(await w.state('done', 'failed', 'stopped')).toEqual(['completed', 'failed', 'cancelled'])
    expect((await w.flow('failed')).error).toEqual(FAILURE)
    expect(await w.flow('done')).toMatchObject({ completed: 1, total: 1, finishedUs: w.base.us(0) })
  })
}

function moving(backend: StoreBackend): void {
  const harness = eachWorkflowHarness(backend)

  test('a move puts the job into the lane of its next step, which charges it there', async () => {
    const w = harness()
    await w.base.define({ slow: { rate: 1, per: '10s' } })
    await w.begin('a')
    await w.begin('b')
    await w.start()
    for (const name of ['a', 'b'])
      expect(await w.next(name, { steps: [record('one')], then: go('two', { limits: ['slow'] }) })).toBe('available')
    expect(await w.start()).toEqual(['a/two'])
    expect(await w.start()).toEqual([])
    w.base.at(10_000)
    expect(await w.start()).toEqual(['b/two'])
    expect(await w.steps('a')).toEqual(['one:done'])
  })

  test('an unlimited step after a limited one is in no lane', async () => {
    const w = harness()
    await w.base.define({ slow: { rate: 1, per: '1h' } })
    await w.begin('a', { limits: ['slow'], step: 'first' })
    await w.begin('b', { limits: ['slow'], step: 'first' })
    expect(await w.start()).toEqual(['a/first'])
    await w.next('a/first', { then: go('second') })
    expect(await w.start()).toEqual(['a/second'])
  })

  test('a retry stays at its step, and pays again', async () => {
    const w = harness()
    await w.base.define({ slow: { rate: 1, per: '10s' } })
    await w.begin('a')
    await w.start()
    await w.next('a', { then: go('two', { limits: ['slow'], attempts: 2 }) })
    await w.start()
    await w.settle('a/two', { kind: 'retry', delayUs: 0, error: FAILURE })
    expect(await w.start()).toEqual([])
    w.base.at(10_000)
    expect(await w.start()).toEqual(['a/two'])
    expect(w.run('a/two')).toMatchObject({ attempt: 2, maxAttempts: 2 })
  })

  test('weights, fair keys, priorities, queues and attempts are those of the arrival', async () => {
    const w = harness()
    await w.base.define({ units: { rate: 5, per: '10s', burst: 5 } })
    for (const name of ['a', 'b', 'c']) await w.begin(name)
    await w.start()
    await w.next('a', { then: go('s', { limits: ['units*4'], priority: 1, attempt: 1, attempts: 7 }) })
    await w.next('b', { then: go('s', { limits: ['units*3'], priority: 2 }) })
    await w.next('c', { then: go('s', { queue: 'other', fairKey: 'x' }) })
    expect(await w.start()).toEqual(['b/s'])
    w.base.at(4_000)
    expect(await w.start()).toEqual(['a/s'])
    expect(w.run('a/s')).toMatchObject({ attempt: 2, maxAttempts: 7, priority: 1 })
    expect(await w.start({ queue: 'other' })).toEqual(['c/s'])
  })

  test('a flow keeps its place, unless it asks for a new one', async () => {
    const w = harness()
    await w.base.define({ one: { concurrency: 1 } })
    for (const name of ['a', 'b', 'c']) await w.begin(name)
    await w.start()
    await w.next('a', { then: go('s', { limits: ['one'] }, 'new') })
    await w.next('b', { then: go('s', { limits: ['one'] }) })
    await w.next('c', { then: go('s', { limits: ['one'] }) })
    for (const expected of ['b', 'c', 'a']) {
      expect(await w.start()).toEqual([`${expected}/s`])
      await w.settle(`${expected}/s`)
    }
    expect(await w.state('a', 'b', 'c')).toEqual(['completed', 'completed', 'completed'])
  })

  test('a move may wait: by the store clock, or by the wall clock', async () => {
    const w = harness()
    await w.begin('a')
    await w.begin('b')
    await w.start()
    expect(await w.next('a', { then: go('later', { delayMs: 2_000 }) })).toBe('retryable')
    expect(await w.next('b', { then: go('at', { runAtMs: w.base.clock.now() + 3_000 }) })).toBe('scheduled')
    expect(await w.start()).toEqual([])
    w.base.at(2_000)
    expect(await w.start()).toEqual(['a/later'])
    w.base.at(3_000)
    expect(await w.start()).toEqual(['b/at'])
  })

  test('permits return at a move, or stay with the flow until it ends', async () => {
    const w = harness()
    await w.base.define({ gate: { concurrency: 1 } })
    await w.begin('a', { limits: ['gate'], step: '~hold' })
    await w.begin('b', { limits: ['gate'], step: '~hold' })
    await w.start()
    await w.next('a/~hold', { keepPermits: true, then: go(null) })
    expect(await w.start()).toEqual(['a'])
    expect(await w.memory('a')).toMatchObject({ held: true })
    await w.next('a', { then: park({ dueUs: w.base.us(1_000) }) })
    expect(await w.start()).toEqual([])
    w.base.at(1_000)
    expect(await w.start()).toEqual(['a'])
    await w.settle('a')
    expect(await w.start()).toEqual(['b/~hold'])
    await w.next('b/~hold', { then: go(null) })
    expect((await w.base.bucket('gate')).active).toBe(0)
  })

  test('a machine keeps its state in its input', async () => {
    const w = harness()
    await w.begin('m', { kind: 'machine', step: 'one', input: '1' })
    await w.start()
    await w.next('m/one', { state: '2', then: go('two') })
    await w.start()
    expect(w.run('m/two').input).toBe('2')
    await w.next('m/two', { then: go('three') })
    await w.start()
    expect(w.run('m/three').input).toBe('2')
  })

  test('beginning again forgets the steps, and keeps those of the last generation for looking', async () => {
    const w = harness()
    await w.begin('a', { input: '0' })
    await w.start()
    await w.next('a', { steps: [record('x', { result: '1' })], then: go(null) })
    await w.start()
    await w.next('a', { again: '5', then: go(null, {}, 'new') })
    await w.start()
    expect(await w.memory('a')).toMatchObject({ input: '5', generation: 1, steps: [] })
    expect(await w.steps('a')).toEqual([])
    await w.next('a', { steps: [record('x')], then: { kind: 'end', result: '9', error: null } })
    expect(await w.steps('a')).toEqual(['x:done'])
    expect(await w.base.store.get(w.id('a'))).toMatchObject({ state: 'completed', result: '9' })
  })

  test('a move that ends its job writes its last steps with it', async () => {
    const w = harness()
    await w.begin('a')
    await w.begin('b')
    await w.start()
    expect(await w.next('a', { steps: [record('x')], then: { kind: 'end', result: '1', error: null } })).toBe(
      'completed',
    )
    const failed = record('x', { state: 'failed', error: FAILURE })
    expect(await w.next('b', { steps: [failed], then: { kind: 'end', result: null, error: FAILURE } })).toBe(
      'discarded',
    )
    expect(await w.state('a', 'b')).toEqual(['completed', 'failed'])
    expect([await w.steps('a'), await w.steps('b')]).toEqual([['x:done'], ['x:failed']])
  })

  test('steps read back as they were written, in the order of their first writing', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const full = record('full', {
      result: '{"a":"ü\\u0000"}',
      attempt: 2,
      startedUs: 5,
      finishedUs: 6,
      waitedUs: 7,
      dueUs: 8,
      waitedFor: { limit: 'l', key: 'k' },
      input: '{"s":1}',
    })
    await w.next('a', { steps: [record('z', { state: 'sleeping' }), full] })
    await w.next('a', { steps: [record('b'), record('z')], then: go(null) })
    await w.start()
    const { steps } = await w.memory('a')
    expect(steps.map(({ name, state }) => `${name}:${state}`)).toEqual(['z:done', 'full:done', 'b:done'])
    expect(steps[1]).toEqual({ ...full, left: null })
  })
}

function guard(backend: StoreBackend): void {
  const harness = eachWorkflowHarness(backend)

  test('a stale move is lost, also one of the same instant', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const first = w.run('a')
    expect(await w.next('a', { then: go(null) })).toBe('available')
    await w.start()
    // The clock stands: the attempt, the worker and the start of both runs are the same.
    expect(await w.next('a', { steps: [record('stale')], then: go(null) }, false, first)).toBe('lost')
    expect(await w.next('a', { steps: [record('stale')] }, false, first)).toBe('lost')
    expect(await w.steps('a')).toEqual([])
    expect(await w.next('a', { then: { kind: 'end', result: null, error: null } })).toBe('completed')
  })

  test('a plain settlement of an earlier run of the same instant is lost', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const { seq, attempt, startedUs } = w.run('a')
    await w.next('a', { then: go(null) })
    await w.start()
    const stale = { seq, attempt, startedUs, moves: 0 } as const
    for (const what of [{ kind: 'complete', result: null }, { kind: 'cancel' }] as const)
      expect(await w.base.store.settle(w.base.worker, { ...stale, ...what })).toEqual({ kind: 'lost' })
    expect(await w.state('a')).toEqual(['running'])
  })

  test('a job that is to be cancelled ends at its move, and nothing else is written', async () => {
    const w = harness()
    await w.base.define({ one: { concurrency: 1 } })
    await w.begin('a', { limits: ['one'] })
    await w.start()
    expect((await w.base.store.cancel(w.id('a'))).kind).toBe('requested')
    const move = { steps: [record('x')], spawn: [w.side('y')] }
    expect(await w.next('a', { ...move, then: go('z') })).toBe('cancelled')
    expect(await w.state('a')).toEqual(['cancelled'])
    expect(await w.steps('a')).toEqual([])
    expect((await w.base.bucket('one')).active).toBe(0)
  })

  test('a lost lease takes the run back at its step', async () => {
    const w = harness()
    await w.base.define({ slow: { rate: 1, per: '1s' } })
    await w.begin('a')
    await w.start()
    await w.next('a', { steps: [record('one')], then: go('two', { limits: ['slow'] }) })
    await w.start({ leaseMs: 100 })
    w.base.at(1_000)
    expect(await w.base.recover()).toEqual([['a', 'available']])
    expect(await w.next('a/two', { then: go(null) })).toBe('lost')
    expect(await w.start()).toEqual(['a/two'])
    expect(w.run('a/two').attempt).toBe(2)
  })

  test('a step that loses its lease each time fails its flow after its attempts', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    await w.next('a', { then: go('poison', { attempts: 2 }) })
    for (const at of [1, 2]) {
      expect(await w.start({ leaseMs: 100 })).toEqual(['a/poison'])
      w.base.at(at * 1_000)
      await w.base.recover()
    }
    expect(await w.flow('a')).toMatchObject({ state: 'failed', error: { code: 'lease.lost' } })
  })
}

function staying(backend: StoreBackend): void {
  const harness = eachWorkflowHarness(backend)

  test('a run that stays keeps its slot, its lease and its permits', async () => {
    const w = harness()
    await w.base.define({ one: { concurrency: 1 } })
    await w.begin('a', { limits: ['one'] })
    await w.start()
    expect(await w.next('a', { steps: [record('x', { result: '1' })] })).toBe('active')
    expect(await w.next('a', { steps: [record('y')] })).toBe('active')
    expect((await w.base.bucket('one')).active).toBe(1)
    expect((await w.memory('a')).steps.map(({ name }) => name)).toEqual(['x', 'y'])
    await w.settle('a')
    expect((await w.base.bucket('one')).active).toBe(0)
  })

  test('several moves of one run that stay, and the one behind them, may be made at once', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const answers = await Promise.all([
      w.next('a', { steps: [record('x')] }),
      w.next('a', { steps: [record('y')] }),
      w.next('a', { steps: [record('x', { result: '2' })] }),
    ])
    expect(answers).toEqual(['active', 'active', 'active'])
    expect(await w.steps('a')).toEqual(['x:done', 'y:done'])
    expect((await w.shown('a')).steps[0]?.result).toBe('2')
  })
}

function sides(backend: StoreBackend): void {
  const harness = eachWorkflowHarness(backend)

  test('of two side jobs that note one step together the later counts, and the order is that of writing', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const open = ['x', 'y'].map((name) => record(name, { state: 'open' }))
    await w.next('a', { steps: open, spawn: [w.side('x'), w.side('y')], then: park({ ends: 'all' }) })
    await w.start()
    const noted = (n: number) => ({ steps: [record('b', { result: `${n}` }), record(`a${n}`)], then: go('later') })
    expect(await Promise.all([w.next('x/x', noted(1)), w.next('y/y', noted(2))])).toEqual(['available', 'available'])
    const { steps } = await w.shown('a')
    const names = steps.slice(2).map(({ name }) => name)
    expect(names.toSorted()).toEqual(['a1', 'a2', 'b'])
    expect(names.indexOf('a1')).toBeLessThan(names.indexOf('a2'))
    expect(steps.find(({ name }) => name === 'b')?.result).toBe('2')
  })

  test('side jobs wait in their own lanes, and each writes its step', async () => {
    const w = harness()
    await w.base.define({ slow: { rate: 1, per: '10s' } })
    await w.begin('a')
    await w.start()
    const open = ['x', 'y'].map((name) => record(name, { state: 'open' }))
    const spawn = [w.side('x', { limits: ['slow'] }), w.side('y', { limits: ['slow'] })]
    expect(await w.next('a', { steps: open, spawn, then: park({ ends: 'all' }) })).toBe('pending')
    expect(await w.start()).toEqual(['x/x'])
    expect(w.run('x/x').flow).toMatchObject({ id: w.id('a'), node: 1 })
    await w.settle('x/x', { kind: 'complete', result: '"r"' })
    expect(await w.start()).toEqual([])
    w.base.at(10_000)
    expect(await w.start()).toEqual(['y/y'])
    await w.settle('y/y', { kind: 'discard', error: FAILURE })
    expect(await w.start()).toEqual(['a'])
    const { steps, open: left, events } = await w.memory('a')
    expect([left, events]).toEqual([0, 2])
    expect(steps).toMatchObject([
      { name: 'x', state: 'done', result: '"r"', error: null, startedUs: w.base.us(0), finishedUs: w.base.us(0) },
      { name: 'y', state: 'failed', result: null, error: FAILURE, attempt: 1 },
    ])
  })

  test('a side job that ends by a move keeps the record that it wrote', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    await w.next('a', { steps: [record('x', { state: 'open' })], spawn: [w.side('x')], then: park({ ends: 'any' }) })
    await w.start()
    const own = record('x', { result: '1', waitedUs: 9 })
    await w.next('x/x', { steps: [own], then: { kind: 'end', result: '1', error: null } })
    expect(await w.start()).toEqual(['a'])
    expect((await w.memory('a')).steps).toEqual([{ ...own, left: null }])
  })

  test('items of a map end as one: in order, with one wake', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const items = Array.from({ length: 50 }, (_, i) => w.side('m', {}, 'item', i))
    await w.next('a', { steps: [record('m', { state: 'open' })], spawn: items, then: park({ ends: 'all' }) })
    const runs = await w.start()
    expect(runs).toHaveLength(50)
    await w.settle('item/m/7', { kind: 'discard', error: FAILURE })
    expect((await w.shown('a')).steps).toMatchObject([{ name: 'm', state: 'open', left: 49 }])
    for (const run of runs.toReversed())
      if (run !== 'item/m/7') await w.settle(run, { kind: 'complete', result: run.split('/')[2]! })
    expect(await w.start()).toEqual(['a'])
    const [step] = (await w.memory('a')).steps
    const results = Array.from({ length: 50 }, (_, i) => (i === 7 ? null : i))
    expect(JSON.parse(step!.result!)).toEqual(results)
    expect(step).toMatchObject({ state: 'failed', left: 0, error: { code: 'flow.items_failed' } })
    expect(step!.error!.details).toEqual({ failed: 1, items: [{ index: 7, error: FAILURE }] })
    expect((await w.memory('a')).events).toBe(50)
  })

  test('dropped side jobs that wait are cancelled, and those that run are asked to end', async () => {
    const w = harness()
    await w.base.define({ one: { concurrency: 1 } })
    await w.begin('a')
    await w.start()
    const open = ['x', 'y', 'z'].map((name) => record(name, { state: 'open' }))
    const spawn = ['x', 'y', 'z'].map((name) => w.side(name, { limits: ['one'] }))
    await w.next('a', { steps: open, spawn, then: park({ ends: 'any', signals: ['go'] }) })
    expect(await w.start()).toEqual(['x/x'])
    await w.signal('a', 'go')
    expect(await w.start()).toEqual(['a'])
    await w.next('a', { drop: ['x', 'y'], then: park({ seen: 1, ends: 'all' }) })
    expect(await w.base.store.cancellations(w.base.worker)).toEqual([w.run('x/x').seq])
    await w.settle('x/x', { kind: 'cancel' })
    expect(await w.start()).toEqual(['z/z'])
    await w.settle('z/z')
    expect(await w.start()).toEqual(['a'])
    expect((await w.memory('a')).open).toBe(0)
  })

  test('a side job whose step no code asks for gives its units back, and is forgotten', async () => {
    const w = harness()
    await w.base.define({ slow: { rate: 1, per: '1h' } })
    await w.begin('a')
    await w.start()
    const spawn = [w.side('x', { limits: ['slow'] })]
    await w.next('a', { steps: [record('x', { state: 'open' })], spawn, then: park({ ends: 'all' }) })
    await w.start()
    const { uses } = w.run('x/x')
    expect(await w.next('x/x', { then: { kind: 'withdraw', uses } })).toBe('cancelled')
    expect((await w.base.bucket('slow')).available).toBe(1)
    expect(await w.start()).toEqual(['a'])
    expect(await w.steps('a')).toEqual([])
  })

  test('the end of the main job cancels its side jobs', async () => {
    const w = harness()
    await w.base.define({ one: { concurrency: 1 } })
    await w.begin('a')
    await w.start()
    const spawn = [w.side('x', { limits: ['one'] }), w.side('y', { limits: ['one'] })]
    await w.next('a', { steps: [record('x', { state: 'open' }), record('y', { state: 'open' })], spawn })
    expect(await w.start()).toEqual(['x/x'])
    const settled = await w.settle('a')
    expect(settled).toMatchObject({ flow: { ended: 'completed', cancelled: [{ task: 'y' }] } })
    expect(await w.base.store.cancellations(w.base.worker)).toEqual([w.run('x/x').seq])
    await w.settle('x/x', { kind: 'cancel' })
    expect(await w.start()).toEqual([])
    expect(await w.flow('a')).toMatchObject({ state: 'completed', completed: 1, cancelled: 2, total: 3 })
  })
}

function waking(backend: StoreBackend): void {
  const harness = eachWorkflowHarness(backend)

  test('a signal that is awaited wakes its flow, as the park says', async () => {
    const w = harness()
    await w.base.define({ slow: { rate: 1, per: '1h' } })
    await w.begin('m', { kind: 'machine', step: 'one' })
    await w.start()
    await w.next('m/one', { then: park({ signals: ['paid'], arrival: arrival('ship', { limits: ['slow'] }) }) })
    expect(await w.signal('m', 'other')).toEqual({ kind: 'stored', id: w.id('m') })
    expect(await w.start()).toEqual([])
    await w.signal('m', 'paid', '{"by":"card"}')
    expect(await w.start()).toEqual(['m/ship'])
    const { signals, events } = await w.memory('m/ship')
    expect(events).toBe(2)
    expect(signals.map(({ name, payload }) => [name, payload])).toEqual([
      ['other', 'null'],
      ['paid', '{"by":"card"}'],
    ])
    await w.next('m/ship', { consumed: [signals[1]!.seq], then: go('done') })
    await w.start()
    expect((await w.memory('m/done')).signals.map(({ name }) => name)).toEqual(['other'])
  })

  test('a signal between an entry and its park is not lost', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const { events } = await w.memory('a')
    await w.signal('a', 'go')
    expect(await w.next('a', { then: park({ seen: events, signals: ['go'] }) })).toBe('available')
    expect(await w.start()).toEqual(['a'])
  })

  test('an end between an entry and its park is not lost', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    await w.next('a', {
      steps: [record('x', { state: 'open' }), record('y', { state: 'open' })],
      spawn: [w.side('x'), w.side('y')],
    })
    await w.start()
    const { events } = await w.memory('a')
    await w.settle('x/x')
    expect(await w.next('a', { then: park({ seen: events, ends: 'any' }) })).toBe('available')
    expect(await w.start()).toEqual(['a'])
    expect(await w.next('a', { then: park({ seen: 1, ends: 'all' }) })).toBe('pending')
    await w.settle('y/y')
    expect(await w.start()).toEqual(['a'])
    expect(await w.next('a', { then: park({ seen: 2, ends: 'all' }) })).toBe('available')
  })

  test('a time wakes a parked flow, and a signal before it does so once', async () => {
    const w = harness()
    await w.begin('a')
    await w.begin('b')
    await w.start()
    for (const name of ['a', 'b'])
      expect(await w.next(name, { then: park({ signals: ['go'], dueUs: w.base.us(5_000) }) })).toBe('retryable')
    w.base.at(1_000)
    await w.signal('a', 'go')
    await w.signal('a', 'go')
    expect(await w.start()).toEqual(['a'])
    w.base.at(5_000)
    expect(await w.start()).toEqual(['b'])
  })

  test('an event does not shorten the delay of an attempt that failed', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    await w.next('a', { then: park({ signals: ['go'], arrival: arrival('s') }) })
    await w.signal('a', 'go')
    await w.start()
    await w.settle('a/s', { kind: 'retry', delayUs: 5_000_000, error: FAILURE })
    await w.signal('a', 'go')
    expect(await w.start()).toEqual([])
    w.base.at(5_000)
    expect(await w.start()).toEqual(['a/s'])
  })

  test('with many side jobs open, ends wake a flow only now and then', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const names = Array.from({ length: 105 }, (_, i) => `s${i}`)
    const steps = names.map((name) => record(name, { state: 'open' }))
    await w.next('a', { steps, spawn: names.map((name) => w.side(name)), then: park({ ends: 'any' }) })
    await w.start({ slots: 200 })
    await w.settle('s0/s0')
    w.base.at(20)
    await w.settle('s1/s1')
    expect(await w.start()).toEqual([])
    w.base.at(50)
    expect(await w.start()).toEqual(['a'])
    expect((await w.memory('a')).steps.filter(({ state }) => state === 'done')).toHaveLength(2)
  })

  test('a signal is stored once, also after it was read, and a flow takes only so many', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    expect((await w.signal('a', 'go', '1', 'e1')).kind).toBe('stored')
    expect((await w.signal('a', 'go', '2', 'e1')).kind).toBe('duplicate')
    const [first] = (await w.memory('a')).signals
    expect(first?.payload).toBe('1')
    await w.next('a', { consumed: [first!.seq], steps: [record('got')] })
    expect((await w.memory('a')).signals).toEqual([])
    expect((await w.signal('a', 'go', '3', 'e1')).kind).toBe('duplicate')
    expect((await w.signal('a', 'go', '4', 'e2')).kind).toBe('stored')
  })

  test('a signal that is sent again after its flow has ended is a duplicate, any other one has come too late', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    await w.signal('a', 'go', '1', 'e1')
    await w.settle('a')
    expect((await w.signal('a', 'go', '1', 'e1')).kind).toBe('duplicate')
    expect((await w.signal('a', 'go', '1', 'e2')).kind).toBe('ended')
    expect((await w.signal('a', 'go', '1')).kind).toBe('ended')
  })

  test('the once of a signal counts for its name: a misspelt signal takes it from no other', async () => {
    const w = harness()
    await w.begin('a')
    await w.start()
    const { events } = await w.memory('a')
    await w.next('a', { then: park({ seen: events, signals: ['approved'] }) })
    expect((await w.signal('a', 'aproved', '1', 'e1')).kind).toBe('stored')
    expect((await w.signal('a', 'approved', '2', 'e1')).kind).toBe('stored')
    expect((await w.signal('a', 'approved', '3', 'e1')).kind).toBe('duplicate')
    await w.start()
    const { signals } = await w.memory('a')
    expect(signals.map(({ name, payload }) => [name, payload])).toEqual([
      ['aproved', '1'],
      ['approved', '2'],
    ])
    await w.next('a', { consumed: signals.map(({ seq }) => seq), steps: [record('got')] })
    expect((await w.signal('a', 'aproved', '4', 'e1')).kind).toBe('duplicate')
    expect((await w.signal('a', 'approved', '5', 'e1')).kind).toBe('duplicate')
  })

  test('a signal finds a flow by its id, or the running one by its key', async () => {
    const w = harness()
    await w.begin('a', { key: 'k' }, 'order')
    await w.start()
    const by = { name: 'order', key: 'k' }
    expect(await w.base.store.signalFlow(by, 'x', '1', null)).toEqual({ kind: 'stored', id: w.id('a') })
    await w.settle('order')
    expect(await w.signal('a', 'x')).toEqual({ kind: 'ended', id: w.id('a') })
    expect(await w.base.store.signalFlow(by, 'x', '1', null)).toEqual({ kind: 'missing' })
    await w.begin('b', { key: 'k' }, 'order')
    expect(await w.base.store.signalFlow(by, 'x', '1', null)).toEqual({ kind: 'stored', id: w.id('b') })
    for (const id of [crypto.randomUUID(), 'nonsense'])
      expect(await w.base.store.signalFlow({ id }, 'x', '1', null)).toEqual({ kind: 'missing' })
  })
}
