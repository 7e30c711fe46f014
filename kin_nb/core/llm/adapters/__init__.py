"""Wire formats: how a request is written and a reply is read, one class per `api_style` (openai.py has Mistral's too).

An adapter is made once per backend and may cache. It never opens a connection and never retries.
May import: core.config, messages, records and urls; core.llm's errors and response_builder.
"""
