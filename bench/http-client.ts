import { connect } from 'node:net'

/** The answer to a request. */
export interface Answer {
  readonly jobs: readonly { readonly id: string }[]
}

/** One connection that sends a request after each answer. Node's own client would use as much CPU as the server. */
export class Client {
  readonly #socket: ReturnType<typeof connect>
  #heard = ''
  #answered: (answer: Answer) => void = () => undefined

  constructor(port: number) {
    this.#socket = connect(port, '127.0.0.1').setNoDelay(true).setEncoding('latin1')
    this.#socket.on('data', (text: string) => this.#hear(text))
  }

  post(path: string, body: object): Promise<Answer> {
    const text = JSON.stringify(body)
    this.#socket.write(
      `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n${text}`,
    )
    return new Promise((resolve) => (this.#answered = resolve))
  }

  end(): void {
    this.#socket.end()
  }

  #hear(text: string): void {
    this.#heard += text
    const head = this.#heard.indexOf('\r\n\r\n')
    const length = /content-length: (\d+)/i.exec(this.#heard.slice(0, Math.max(0, head)))
    if (!length || this.#heard.length < head + 4 + Number(length[1])) return
    const body = this.#heard.slice(head + 4)
    this.#heard = ''
    this.#answered(JSON.parse(body) as Answer)
  }
}
