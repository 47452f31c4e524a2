// Over real sockets: what no Request object can show.
import { remoteOf } from '../../src/remote/remote.ts'
import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test } from 'vitest'
import { listen, type Listening } from '../../src/http/listen.ts'
import { serve } from '../conformance/ojs/serve.ts'
import { everyStore } from '../stores.ts'
import { HttpHarness } from './http-harness.ts'

const KINDS = await everyStore('servers that are told to stop')
const MAIN = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))

async function open(options: object = {}): Promise<{ harness: HttpHarness; listening: Listening }> {
  const harness = await HttpHarness.open({ http: { maxBodyBytes: 10_000 } })
  const listening = await listen(harness.app, { port: 0, host: '127.0.0.1', ...options })
  onTestFinished(() => listening.close(0))
  return { harness, listening }
}

async function connect({ url }: Listening): Promise<Socket> {
  const socket = createConnection(Number(new URL(url).port), '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  return socket
}

/** All that the server says until it hangs up. */
async function answerOf(socket: Socket): Promise<string> {
  let text = ''
  for await (const chunk of socket) text += String(chunk)
  return text
}

describe('a server', () => {
  test('answers 408 to a head or a body that does not come to its end, and hangs up', async () => {
    const { listening } = await open({ headersTimeoutMs: 100, requestTimeoutMs: 200 })
    const head = await connect(listening)
    head.write('POST /ojs/v1/jobs HTTP/1.1\r\nHost: x\r\nX-Slow: ')
    expect(await answerOf(head)).toMatch(/^HTTP\/1\.1 408 /)
    const body = await connect(listening)
    body.write(
      'POST /ojs/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"a"',
    )
    expect(await answerOf(body)).toMatch(/^HTTP\/1\.1 (408|400) /)
  })

  test('answers 413 to a body that says it is too long, without reading it, and 431 to a head that is', async () => {
    const { listening } = await open()
    const long = await connect(listening)
    long.write(
      'POST /ojs/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n',
    )
    const [answer] = (await once(long, 'data')) as [Buffer]
    expect(answer.toString()).toMatch(/^HTTP\/1\.1 413 /)
    const wide = await connect(listening)
    wide.write(`GET /ojs/v1/health HTTP/1.1\r\nHost: x\r\nX-Wide: ${'x'.repeat(20_000)}\r\n\r\n`)
    expect(await answerOf(wide)).toMatch(/^HTTP\/1\.1 431 /)
  })

  test('notices that a waiting client has gone: its place is free, and nothing is handed to it', async () => {
    const { harness, listening } = await open()
    const socket = await connect(listening)
    const body = JSON.stringify({ queues: ['q'], wait: 'PT60S' })
    socket.write(
      `POST /ojs/v1/workers/fetch HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    await expect.poll(async () => (await harness.get('/ojs/v1/admin/workers')).body['summary'].total).toBe(2)
    socket.destroy()
    await once(socket, 'close')
    await expect.poll(async () => (await harness.get('/health')).status).toBe(200)
    const id = await harness.push()
    await harness.clock.advance('1s')
    expect(await harness.job(id)).toMatchObject({ state: 'available', attempt: 0 })
  })
})

test('a server at a port that is taken says so, and what to change', async () => {
  const { harness, listening } = await open()
  const port = Number(new URL(listening.url).port)
  await expect(listen(harness.app, { port, host: '127.0.0.1' })).rejects.toMatchObject({
    code: 'server.listen',
    message: expect.stringMatching(
      /^Cannot listen on 127\.0\.0\.1:\d+: .*EADDRINUSE.* Choose another --port\.$/,
    ) as string,
  })
})

describe('over a socket', () => {
  /** Sends a request in pieces, and reads to the end of the connection. */
  async function exchange(listening: Listening, ...pieces: (string | Buffer)[]): Promise<string> {
    const socket = await connect(listening)
    for (const piece of pieces) {
      socket.write(piece)
      await new Promise((resolve) => setImmediate(resolve))
    }
    return answerOf(socket)
  }
  const push = (length: number | string): string =>
    `POST /ojs/v1/jobs HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n${
      typeof length === 'number' ? `Content-Length: ${length}` : length
    }\r\n\r\n`

  test('a body in pieces is one body, wherever it was cut', async () => {
    const { listening } = await open()
    const body = Buffer.from(JSON.stringify({ type: 'a', args: ['für 🦥'] }))
    const cuts = Array.from(body, (_, i) => body.subarray(i, i + 1))
    const answer = await exchange(listening, push(body.length), ...cuts)
    expect(answer).toMatch(/^HTTP\/1\.1 201 /)
    expect(answer).toContain('für 🦥')
  })

  test('requests that come in one piece are answered each with its own job, in turn', async () => {
    const { listening } = await open()
    const bodies = ['one', 'two', 'three'].map((type) => JSON.stringify({ type, args: [type] }))
    const requests = bodies.map((body) => `${push(body.length)}${body}`)
    const kept = requests.map((each, i) => (i < 2 ? each.replace('Connection: close\r\n', '') : each))
    const answer = await exchange(listening, kept.join(''))
    expect(
      Array.from(answer.matchAll(/HTTP\/1\.1 201 [^]*?"type":"(\w+)".*?"args":\["(\w+)"\]/g), ([, ...both]) => both),
    ).toEqual([
      ['one', 'one'],
      ['two', 'two'],
      ['three', 'three'],
    ])
  })

  test('what is no UTF-8, or more than is taken, is refused', async () => {
    const { listening } = await open()
    expect(await exchange(listening, push(2), Buffer.from([0xc3, 0x28]))).toMatch(/ 400 [^]*invalid_payload/)
    const chunk = `1000\r\n${' '.repeat(4096)}\r\n`
    expect(await exchange(listening, push('Transfer-Encoding: chunked'), chunk, chunk, chunk)).toMatch(
      /^HTTP\/1\.1 413 /,
    )
  })

  const REFUSED = /"error":\{"code":"[a-z_]+","message":"[^"]+","retryable":(true|false),.*"request_id":"req_/
  test.each([
    ['no Host', 'GET /ojs/v1/health HTTP/1.1\r\nConnection: close\r\n\r\n', 400],
    ['a Host that is none', 'GET /ojs/v1/health HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n', 400],
    ['no HTTP', 'HELLO\r\n\r\n', 400],
    ['a header that is none', 'GET / HTTP/1.1\r\nHost: x\r\nA B: c\r\n\r\n', 400],
    ['headers beyond the bound', `GET / HTTP/1.1\r\nHost: x\r\nA: ${'a'.repeat(20_000)}\r\n\r\n`, 431],
    [
      'an Expect that is not met',
      'POST /ojs/v1/jobs HTTP/1.1\r\nHost: x\r\nExpect: cake\r\nContent-Length: 0\r\n\r\n',
      417,
    ],
  ])('%s is refused with the error body of the specification', async (_, text, status) => {
    const { listening } = await open()
    const answer = await exchange(listening, text)
    expect(answer).toMatch(new RegExp(`^HTTP/1\\.1 ${status} [^]*application/openjobspec\\+json`, 'i'))
    expect(answer).toMatch(REFUSED)
  })

  test('HTTP/1.0 needs no Host', async () => {
    const { listening } = await open()
    expect(await exchange(listening, 'GET /ojs/v1/health HTTP/1.0\r\n\r\n')).toMatch(
      /^HTTP\/1\.1 200 [^]*"status":"ok"/,
    )
  })

  test('HEAD says how long the answer would be and keeps it', async () => {
    const { listening } = await open()
    const answer = await exchange(listening, 'HEAD /ojs/v1/health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    expect(answer).toMatch(/^HTTP\/1\.1 200 [^]*content-length: \d\d+\r\n[^]*\r\n\r\n$/i)
  })

  test('a server that stops hangs up on clients that it has answered, and waits for none', async () => {
    const { harness, listening } = await open()
    const idle = await connect(listening)
    idle.write('GET /ojs/v1/health HTTP/1.1\r\nHost: x\r\n\r\n')
    await once(idle, 'data')
    const waiting = await connect(listening)
    const body = JSON.stringify({ queues: ['q'], wait: 'PT60S' })
    waiting.write(push(body.length).replace('jobs', 'workers/fetch').replace('Connection: close\r\n', '') + body)
    await expect.poll(async () => (await harness.get('/ojs/v1/admin/workers')).body['summary'].total).toBe(2)
    harness.app.drain()
    remoteOf(harness.sluice).stop()
    const closed = listening.close(60_000)
    expect(await answerOf(waiting)).toMatch(/^HTTP\/1\.1 200 [^]*connection: close\r\n[^]*\{"jobs":\[\]\}$/i)
    expect(await answerOf(idle)).toBe('')
    await closed
  })

  test('a server that stops ends streams and the connections that they leave idle', async () => {
    const { harness, listening } = await open()
    const socket = await connect(listening)
    socket.write('GET /ojs/v1/events/stream HTTP/1.1\r\nHost: x\r\n\r\n')
    await once(socket, 'data')
    const hungUp = once(socket, 'close')
    socket.resume()
    harness.app.close()
    // Longer than a test may take.
    await listening.close(600_000)
    expect(await hungUp).toEqual([false])
  })

  test('events are told as they happen, until the listener or the server goes', async () => {
    const { harness, listening } = await open()
    const socket = await connect(listening)
    let heard = ''
    socket.on('data', (chunk: Buffer) => (heard += chunk.toString()))
    socket.write('GET /ojs/v1/events/stream?channel=queue:q HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    await expect.poll(() => heard).toContain(': listening')
    const id = await harness.push()
    await expect.poll(() => heard).toContain(id)
    const ended = once(socket, 'end')
    harness.app.close()
    await ended
    expect(heard).toMatch(/^HTTP\/1\.1 200 [^]*text\/event-stream[^]*event: job\.enqueued[^]*\r\n0\r\n\r\n$/)
  })
})

describe('sluice serve', () => {
  async function refused(...flags: string[]): Promise<{ code: number | null; said: string }> {
    const child = spawn(process.execPath, [MAIN, 'serve', '--store', 'sqlite::memory:', ...flags], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let said = ''
    child.stderr.on('data', (chunk: Buffer) => (said += chunk.toString()))
    // At its exit, its last words may not have been read.
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, said }
  }

  test('listens beyond loopback only with tokens', async () => {
    const { code, said } = await refused('--host', '0.0.0.0', '--port', '0')
    expect(code).toBe(2)
    expect(said).toMatch(/^error cli\.usage: Every client that reaches 0\.0\.0\.0 would have full access/)
  })

  test('says what is wrong with a configuration', async () => {
    const { code, said } = await refused('--config', '/nowhere.json')
    expect(code).toBe(2)
    expect(said).toMatch(/^error cli\.usage: --config \/nowhere\.json cannot be read/)
  })

  test.each(KINDS)('on $name, told to stop, answers who waits, closes the store, and ends with 0', async (kind) => {
    const { url, child } = await serve('--store', kind.create(), '--port', '0')
    const waiting = fetch(`${url}/ojs/v1/workers/fetch`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ queues: ['q'], wait: 'PT60S' }),
    })
    await expect
      .poll(
        async () =>
          ((await (await fetch(`${url}/ojs/v1/admin/workers`)).json()) as { summary: { total: number } }).summary.total,
      )
      .toBe(2)
    child.kill('SIGTERM')
    const [answer, [code]] = await Promise.all([waiting, once(child, 'exit')])
    expect(await answer.json()).toEqual({ jobs: [] })
    expect(code).toBe(0)
  })
})
