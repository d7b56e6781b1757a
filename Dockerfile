# docker build --tag alignbook . && docker run --rm --volume "$PWD/_build:/alignbook/_build" alignbook
# builds the book; docker run --rm alignbook make test runs the tests.
FROM python:3.11-slim
RUN apt-get update && apt-get install -y --no-install-recommends make git chromium && rm -rf /var/lib/apt/lists/*
WORKDIR /alignbook
COPY . .
RUN make env
CMD ["make", "book"]
