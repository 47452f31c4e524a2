import { expect, onTestFinished } from 'vitest'

/** A stream of events, read as far as it has come. */
export class Stream {
  text = ''
  ended = false

  static async open(
    fetch: (request: Request) => Promise<Response>,
    path: string,
    headers: Record<string, string> = {},
  ): Promise<Stream> {
    const stream = new Stream()
    const over = new AbortController()
    onTestFinished(() => over.abort())
    const response = await fetch(new Request(`http://app${path}`, { headers, signal: over.signal }))
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'text/event-stream'])
    const reader = (response.body as ReadableStream<Uint8Array>).getReader()
    void (async () => {
      for (;;) {
        const { done, value } = await reader.read()
        if (done) break
        stream.text += Buffer.from(value).toString()
      }
      stream.ended = true
    })()
    await new Promise(setImmediate)
    return stream
  }

  /** The data of the events of one name. */
  of(name: string): unknown[] {
    return [...this.text.matchAll(new RegExp(`event: ${name}\\ndata: (.*)`, 'g'))].map(
      ([, data]) => JSON.parse(data ?? '') as unknown,
    )
  }

  get lastId(): string {
    return [...this.text.matchAll(/^id: (.*)$/gm)].at(-1)?.[1] ?? ''
  }
}
